"""What is simulated: the kinds of workload, their sections in a file, and their figures."""
