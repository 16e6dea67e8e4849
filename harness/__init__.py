"""Hosts, remote execution, lab, build, launch, workloads and the r2cc command line."""
