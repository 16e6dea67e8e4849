"""All-reduces of torch, one a step; every element is checked."""

from __future__ import annotations

import sys

import missing  # noqa: F401 - the first of these: see there

# isort: split
import torch
import torch.distributed as dist
from ranks import bits, join, options
from record import Record


def main() -> int:
    parser = options(__doc__, 120)
    parser.add_argument("--mib", type=int, default=64, help="size of one all-reduce")
    args = parser.parse_args()
    device = join(args.cpu)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    places = torch.arange(args.mib << 18, device=device, dtype=torch.int64)
    record = Record()
    for step in range(args.steps):
        # Whole numbers far below 2^24: their sum is exact in any order.
        data = ((places + step) % 1009 * (rank + 1)).float()
        dist.all_reduce(data)
        right = ((places + step) % 1009 * (ranks * (ranks + 1) // 2)).float()
        wrong = int((data != right).sum())
        record.step(step, bits([data]))
        if wrong:
            print(f"step {step}: {wrong} wrong elements", file=sys.stderr)
            return 1
    record.end()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
