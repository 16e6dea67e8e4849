"""The root qdisc of an interface: recorded as tc tells it, and given back exactly. Pure: nothing runs here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.faults.parts.bucket import Bucket

OURS = "7a7:"
"""The handle of every qdisc of ours."""
DEFAULT = "0:"
"""The handle of what the kernel chose by itself: it chooses again when ours is gone."""
PLAIN = {"pfifo_fast": (), "pfifo": ("limit",), "bfifo": ("limit",), "noqueue": ()}
FQ_CODEL = ("limit", "flows", "quantum", "target", "interval", "memory_limit", "drop_batch")
TIMES = ("target", "interval")
"""In microseconds, as `tc -j` has them."""


@dataclass(frozen=True)
class Root:
    """How an interface comes back to its queues. `lines` of `tc`, first to last; `bucket`: the root is one."""

    lines: tuple[str, ...]
    bucket: Bucket | None = None
    inner: bool = False
    """The bucket has queues of its own below it: it can be changed, but not be replaced."""


def root_of(qdiscs: Sequence[Mapping[str, Any]], nic: str) -> Root:
    """ValueError for queues that could not be given back: those with classes, or of a kind not known here."""
    mine = [each for each in qdiscs if each.get("dev") == nic and each.get("handle") != "ffff:"]
    root = next((each for each in mine if each.get("root")), None)
    if root is None:
        raise ValueError(f"`tc qdisc` says nothing about {nic}")
    below = [each for each in mine if each is not root and each["handle"] != DEFAULT]
    if root["handle"] == DEFAULT:
        return Root((f"tc qdisc del dev {nic} root handle {OURS}",))
    place = f"tc qdisc replace dev {nic} root handle {root['handle']}"
    if root["kind"] == "mq":
        leaves = [f"tc qdisc replace dev {nic} parent {e['parent']} handle {e['handle']} {words(e)}" for e in below]
        return Root((f"{place} mq", *leaves))
    if root["kind"] == "tbf":
        bucket = bucket_of(root["options"])
        return Root((f"{place} {bucket.words()}",), bucket, bool(below))
    if below:
        raise ValueError(f"{nic} has queues below its {root['kind']}, which could not be given back")
    return Root((f"{place} {words(root)}",))


def words(qdisc: Mapping[str, Any]) -> str:
    """A qdisc as one tells it to tc. ValueError for a kind that is not known here."""
    kind, options = str(qdisc["kind"]), qdisc.get("options", {})
    if kind in PLAIN:
        return " ".join([kind, *(f"{name} {options[name]}" for name in PLAIN[kind] if name in options)])
    if kind == "fq_codel":
        values = {n: f"{codel_us(int(options[n]))}us" if n in TIMES else options[n] for n in FQ_CODEL if n in options}
        told = [f"{name} {value}" for name, value in values.items()]
        return " ".join([kind, *told, "ecn" if options.get("ecn") else "noecn"])
    if kind == "tbf":
        return bucket_of(options).words()
    raise ValueError(f"a {kind} cannot be recorded so that it comes back exactly (supported: fq_codel, mq, tbf, fifos)")


def codel_us(shown: int) -> int:
    """What to tell the kernel so that it shows this: it counts in 1024 ns and rounds down, both ways."""
    return next((us for us in (shown, shown + 1) if (us * 1000 >> 10 << 10) // 1000 == shown), shown)


def bucket_of(options: Mapping[str, Any]) -> Bucket:
    return Bucket(int(options["rate"]), int(options["burst_raw"], 16), int(options["limit"]))


def has_ours(qdiscs: Sequence[Mapping[str, Any]], nic: str) -> bool:
    return any(each.get("dev") == nic and each.get("handle") == OURS for each in qdiscs)
