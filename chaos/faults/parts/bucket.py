"""A token bucket as the kernel keeps it: a slower one, and exactly the old one again."""

from __future__ import annotations

import math
from dataclasses import dataclass

QUEUE_S = 0.003
BURST_S = 0.001
LEAST_BYTES = 131_072
TICK_S = 64e-9
"""The kernel counts a bucket's depth in ticks of 64 ns at its rate."""
LARGEST_PACKET_BYTES = 66_000
"""What the kernel hands over at once (GSO: 64 KiB and headers). A bucket that holds less than a packet that waits
already lets nothing through, ever: packets are cut to the bucket's size only when they come."""


@dataclass(frozen=True)
class Bucket:
    """A token bucket as `tc -d -raw` reports it; `depth_ticks` is exact where bytes are rounded."""

    rate_Bps: int
    depth_ticks: int
    limit_bytes: int

    @property
    def burst_bytes(self) -> int:
        """The bytes from which tc computes exactly these ticks, or the nearest there are."""
        near = self.depth_ticks * TICK_S * self.rate_Bps
        candidates = (math.floor(near), math.ceil(near), math.floor(near) + 1)
        return min(candidates, key=lambda size: abs(ticks(size, self.rate_Bps) - self.depth_ticks))

    def words(self) -> str:
        return f"tbf rate {self.rate_Bps}bps burst {self.burst_bytes}b limit {self.limit_bytes}b"

    def same_as(self, other: Bucket) -> bool:
        """Equal, but for what one byte of depth is worth: no whole number of bytes may give the same ticks."""
        byte = ticks(1, self.rate_Bps) + 1
        equal = (self.rate_Bps, self.limit_bytes) == (other.rate_Bps, other.limit_bytes)
        return equal and abs(self.depth_ticks - other.depth_ticks) <= byte


def ticks(size_bytes: int, rate_Bps: int) -> int:
    """As iproute2 computes them (tc_core.c): rounded down."""
    return int(size_bytes / rate_Bps / TICK_S)


def slowed(bucket: Bucket, fraction: float, largest_bytes: int = LARGEST_PACKET_BYTES) -> Bucket:
    """The same queue at a part of the rate, and a bucket that holds as long a burst, but at least what may wait."""
    rate = max(1, round(bucket.rate_Bps * fraction))
    burst = max(min(largest_bytes, bucket.burst_bytes), round(bucket.burst_bytes * fraction))
    return Bucket(rate, ticks(burst, rate), bucket.limit_bytes)


def bucket_at(rate_gbit: float) -> Bucket:
    """Of a link without one."""
    rate = round(rate_gbit * 1e9 / 8)
    burst = max(LEAST_BYTES, round(rate * BURST_S))
    return Bucket(rate, ticks(burst, rate), max(2 * LEAST_BYTES, round(rate * QUEUE_S)))
