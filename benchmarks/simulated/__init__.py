"""What the tables of docs/results/simulated-*.md hold the simulator against, and what only they show."""
