"""What a run writes while it goes, and what its user sees of it."""
