"""What things are called on a page: arms, faults and verdicts, in words a newcomer understands."""

from __future__ import annotations

ARMS = {
    "stock": "Stock NCCL",
    "migrate": "R2CC",
    "balance": "R2CC, balanced",
    "allreduce": "R2CC AllReduce",
    "upstream": "NCCL’s own failover",
    "restart": "Restart from checkpoint",
}
FAULTS = {
    "link_down": "link failure",
    "port_down": "link failure",
    "black_hole": "silent black hole",
    "flap": "flapping link",
    "rate_limit": "slow link",
    "loss": "packet loss",
}
VERDICTS = {
    "holds": "Holds",
    "deviated": "Deviated",
    "failed": "Failed",
    "void": "Void",
}
ICONS = {"holds": "✓", "deviated": "✗", "failed": "!", "void": "∅"}
BASELINES = frozenset({"stock", "upstream", "restart"})


def arm(name: str) -> str:
    """The name of an arm on the page."""
    return ARMS.get(name, name)


def arm_class(name: str) -> str:
    """The style of an arm: ours in colour, what we compare with in grey."""
    return "base" if name in BASELINES else "ours"


def fault(kind: str) -> str:
    """A fault in plain words."""
    return FAULTS.get(kind, kind.replace("_", " "))


def verdict(name: str) -> str:
    """A verdict as a heading."""
    return VERDICTS.get(name, name.capitalize())


def icon(name: str) -> str:
    """A sign that tells verdicts apart without colour."""
    return ICONS.get(name, "?")
