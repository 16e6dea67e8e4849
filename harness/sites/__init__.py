"""What `--inventory` means: which hosts, how they are reached, what they are."""
