"""Makes what nccl-tests prints of a healthy machine: sizes from 8 B to 1 GiB."""

from __future__ import annotations


def nccl_tests(factor: float = 1.0) -> str:
    """`factor` times the bandwidth of the first machine: its exponent of the size in GB/s, one more in place."""
    both = "   time   algbw   busbw #wrong" * 2
    rows = "".join(_row(power, factor) for power in range(3, 31))
    head = f"# nThread 1 nGpus 8\n#       size         count      type   redop    root  {both}\n"
    return f"{head}{rows}# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1\n"


def _row(power: int, factor: float) -> str:
    out, inside = (f"{10.0 + power} 1.0 {factor * (power + more):.2f} 0" for more in (0, 1))
    return f"{1 << power} {1 << (power - 2)} float sum -1 {out} {inside}\n"
