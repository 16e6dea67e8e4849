"""The cluster that is simulated, and what each arm makes of what is left of it."""
