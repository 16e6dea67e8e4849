"""A small local page over the store: list, search, compare, what runs now. Read-only and without a script."""
