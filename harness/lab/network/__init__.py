"""Namespaces, cables, switches and queues of a lab, made in few commands."""
