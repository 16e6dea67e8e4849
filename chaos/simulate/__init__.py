"""Simulates clusters of hundreds to thousands of GPUs under failure patterns (docs/simulation.md).

Schedules come from the planner that NCCL asks: what is simulated is what runs.
"""
