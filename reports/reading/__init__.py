"""A run directory, read as the journal tells it."""
