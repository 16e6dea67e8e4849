"""Faults, experiments, the journal and the figures computed from it."""
