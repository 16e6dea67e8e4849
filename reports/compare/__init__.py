"""Two or more runs beside each other: what differs, and what may be said of it (docs/howto/runs.md)."""
