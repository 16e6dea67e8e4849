"""What may be said of measured figures: each method in a small pure file that names its source."""
