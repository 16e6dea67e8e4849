"""What runs on GPUs while faults strike: `rank.py` and what it imports are started by a Python that has torch."""
