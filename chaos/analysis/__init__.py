"""From a run's journal to figures, bounds and verdicts. Pure."""
