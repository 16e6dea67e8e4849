"""Sizes and numbers as people write and read them."""

from __future__ import annotations

import re
from collections.abc import Callable

from harness.errors import UsageError

SIZE = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]*)\s*", re.IGNORECASE)
POWERS = "kmgt"
MOST_MORE_DIGITS = 15


def parse_bytes(text: str) -> int:
    """`64MiB`, and `64M` as nccl-tests has it, in powers of 1024; `64MB` in powers of 1000; `64` and `64B` are bytes.

    Raises UsageError for anything else, and for what is no whole number of bytes.
    """
    found = SIZE.fullmatch(text)
    factor = _factor(found["unit"].lower()) if found else None
    if found is None or factor is None:
        raise UsageError(f"'{text}' is no size", "write it as 64MiB, 64M, 64MB or 67108864")
    number = float(found["number"]) * factor if "." in found["number"] else int(found["number"]) * factor
    if number != int(number):
        raise UsageError(f"'{text}' is no whole number of bytes", "write it as 64MiB, 64M, 64MB or 67108864")
    return int(number)


def _factor(unit: str) -> int | None:
    """None: there is no such unit."""
    if unit in ("", "b"):
        return 1
    power = POWERS.find(unit[0]) + 1
    base: int | None = {"": 1024, "ib": 1024, "b": 1000}.get(unit[1:])
    return base**power if base is not None and power > 0 else None


def over(value: float, limit: float, show: Callable[[float, int], str], digits: int) -> str:
    """`value` as `show` has it with so many digits, or, where it is above `limit` by so little that both read the same,
    with as many more as tell them apart."""
    every = range(digits, digits + MOST_MORE_DIGITS)
    told = (each for each in every if value <= limit or show(value, each) != show(limit, each))
    return show(value, next(told, every[-1]))


def nth(what: str, number: int, of: int | None) -> str:
    """`run 1 of 0 to 3`: counted from 0, as in journals, verdicts and names of files. The only one, or one of nobody
    knows how many, is just `run 0`."""
    return f"{what} {number}" if of is None or of < 2 else f"{what} {number} of 0 to {of - 1}"


def show_bytes(count: float) -> str:
    """In powers of 1024, with three digits."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count >= 1024**power:
            return f"{count / 1024**power:.4g} {unit}"
    return f"{count:.0f} B"
