"""Processes that make faults, each from a random stream of its own; rates and sources in `parameters/faults.yaml`."""
