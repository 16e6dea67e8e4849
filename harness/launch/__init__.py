"""How the ranks of a job are started: mpirun, srun, torchrun, or one by one over SSH (docs/reference/launchers.md).

A launcher is a pure function from a `Job` to command lines; `run.py` alone starts anything.
"""
