"""The regression gate: baselines, what is judged, and what a pull request is told."""
