"""Hosts over SSH: connections that are kept, commands on them, keys and jumps."""
