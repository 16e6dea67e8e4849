"""Carries our patches over to another NCCL, and says how far that goes."""
