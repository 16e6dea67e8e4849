"""What runs inside a guest; standard library only, copied into the image as it is."""
