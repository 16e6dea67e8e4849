"""Simulates clusters of hundreds to thousands of GPUs under failure patterns (docs/howto/simulate.md).

Schedules come from the planner that NCCL asks: what is simulated is what runs.
"""
