"""One simulation: its file, its cells, who computes them, and the result."""
