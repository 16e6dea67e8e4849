"""R2CC-AllReduce as published, out of torch's collectives: what ours is compared with (docs/internals/schedules.md).

Of D, all ranks reduce (1-Y)D while all but the degraded one reduce YD among themselves; then YD goes to the degraded
rank, which adds its part, and from there to all, in K pieces. On communicators of their own the first two run side by
side, and the next piece comes to the degraded rank while the last one leaves it.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

DEGRADED, HELPER, PIECES = 0, 1, 16


class Published:
    """Makes its communicators: collective. `y`: the share that the degraded rank is spared."""

    def __init__(self, ranks: int, rank: int, y: float) -> None:
        self._rank, self._y = rank, y
        self._healthy = dist.new_group([other for other in range(ranks) if other != DEGRADED])
        self._pair = dist.new_group([DEGRADED, HELPER])
        self._out = dist.new_group(range(ranks))

    def all_reduce(self, x: torch.Tensor) -> None:
        """In place, on the current stream: which waits for all of it."""
        cut = x.numel() - round(x.numel() * self._y)
        spared = x[cut:]
        works = [dist.all_reduce(x[:cut], async_op=True)]
        if self._rank != DEGRADED:
            works.append(dist.all_reduce(spared, group=self._healthy, async_op=True))
            works.pop().wait()
        for piece in spared.tensor_split(PIECES):
            if self._rank in (DEGRADED, HELPER):
                theirs = torch.empty_like(piece) if self._rank == DEGRADED else piece
                dist.broadcast(theirs, HELPER, group=self._pair, async_op=True).wait()
                if self._rank == DEGRADED:
                    piece.add_(theirs)
            works.append(dist.broadcast(piece, DEGRADED, group=self._out, async_op=True))
        for work in works:
            work.wait()
