"""Figures as people read them: 8.2 ms, 4.1 s, 1.00 GB. One place, so that every rendering says the same."""

from __future__ import annotations

NONE = "–"


def ms(value: float | None) -> str:
    """A duration given in milliseconds: tenths below 100 ms, whole ms below a second, then seconds."""
    if value is None:
        return NONE
    if abs(value) >= 999.5:
        return f"{value / 1000:.1f} s"
    return f"{value:.0f} ms" if abs(value) >= 99.95 else f"{value:.1f} ms"


def limit(value: float) -> str:
    """A limit, which somebody wrote down: without the digits that a measurement has."""
    return f"{value / 1000:g} s" if abs(value) >= 1000 else f"{value:g} ms"


def size(value: float | None) -> str:
    """Bytes in powers of 1000, as networks count."""
    if value is None:
        return NONE
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(value) >= factor:
            return f"{value / factor:.{2 if factor == 1e9 else 1}f} {unit}"
    return f"{value:.0f} B"


def memory(value: float | None) -> str:
    """Bytes in powers of 1024, as memory is counted."""
    if value is None:
        return NONE
    return f"{value / (1 << 30):.1f} GiB" if abs(value) >= 1 << 30 else f"{value / (1 << 20):.1f} MiB"


def gbit(value: float | None) -> str:
    """A rate."""
    return NONE if value is None else f"{value:.2f} Gbit/s"


def count(value: int | None, noun: str) -> str:
    """`1 iteration`, `40 iterations`."""
    return f"{NONE if value is None else value} {noun}{'' if value == 1 else 's'}"
