"""Upstream's nccl-tests: what their programs are told, and what they print and write."""
