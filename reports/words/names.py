"""What things are called on a page: arms, faults and verdicts, in words a newcomer understands."""

from __future__ import annotations

from chaos.faults.registry import kinds

ARMS = {
    "stock": "Stock NCCL",
    "migrate": "R2CC",
    "balance": "R2CC, balanced",
    "allreduce": "R2CC AllReduce",
    "upstream": "NCCL’s own failover",
    "restart": "Restart from checkpoint",
}
SPOKEN = {"stock": "stock NCCL", "balance": "balanced R2CC", "restart": "the restart from a checkpoint"}
"""What reads otherwise amid a sentence."""
FORMER_FAULTS = {"port_down": "link failure", "rate_limit": "slow link"}
"""Kinds in runs of former versions."""
VERDICTS = {
    "holds": "Holds",
    "deviated": "Deviated",
    "failed": "Failed",
    "void": "Void",
}
ICONS = {"holds": "✓", "deviated": "✗", "failed": "!", "void": "∅"}
CHECKS = {
    "exact": ("Exact results", "wrong elements, over every iteration and rank"),
    "completes": ("Completes", "every rank finishes every iteration"),
    "stall_ms": ("Stall", "longest time without new data"),
    "iteration_ms": ("Failover iteration", "against its bound with the tolerance"),
    "longest_ms": ("Longest iteration", "from the fault's onset until it was over, and a second more"),
    "degraded_ms": ("While degraded", "against its bound with the tolerance"),
    "return_ms": ("Time to return", "from the revert to full bandwidth"),
    "after_ms": ("After the fault", "against a healthy iteration"),
    "failed_requests": ("Failed requests", "that got no whole answer"),
    "longest_token_gap": ("Longest gap", "between two tokens of a stream"),
    "longest_silence": ("Longest silence", "requests were under way, and no token of any of them came"),
    "undisturbed": ("Other iterations", "the slowest that no fault touched, over the healthy median"),
    "healthy_ratio": ("Healthy, against stock", "iteration time without a fault, R2CC over stock"),
    "rank_memory_over_stock": ("Memory over stock", "of a rank, at its largest"),
}
BASELINES = frozenset({"stock", "upstream", "restart"})


def arm(name: str) -> str:
    """The name of an arm on the page."""
    return ARMS.get(name, name)


def spoken(name: str) -> str:
    """The name of an arm amid a sentence."""
    return SPOKEN.get(name, arm(name))


def arm_class(name: str) -> str:
    """The style of an arm: ours in colour, what we compare with in grey."""
    return "base" if name in BASELINES else "ours"


def check(name: str) -> tuple[str, str]:
    """A check's name and an explanation; what is in brackets is the fault that it is about."""
    base, _, rest = name.partition("(")
    title, text = CHECKS.get(base, (base.replace("_", " "), ""))
    return (f"{title} ({rest.rstrip(')')})" if rest else title), text


def fault(kind: str) -> str:
    """A fault in plain words; one that is not installed here, by its kind."""
    known = kinds().get(kind)
    return FORMER_FAULTS.get(kind, kind.replace("_", " ")) if known is None else known.noun


def verdict(name: str) -> str:
    """A verdict as a heading."""
    return VERDICTS.get(name, name.capitalize())


def icon(name: str) -> str:
    """A sign that tells verdicts apart without colour."""
    return ICONS.get(name, "?")
