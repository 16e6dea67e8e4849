"""Training with DeepSpeed's ZeRO-2: gradients and optimizer state are split over all ranks, parameters are not."""

from __future__ import annotations

import missing  # noqa: F401 - the first of these: see there

# isort: split
import deepspeed
import torch
import torch.distributed as dist
from llama import Llama
from ranks import bits, join, options, tokens
from record import Record

BATCH = 4


def main() -> None:
    parser = options(__doc__, 60)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=512)
    args = parser.parse_args()
    device = join(args.cpu)
    rank = dist.get_rank()
    deepspeed.init_distributed()
    model = Llama(args.layers, args.hidden, heads=8, vocabulary=4096)
    # torch's optimizer: DeepSpeed's own are compiled at the first use.
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-4),
        config={
            "train_micro_batch_size_per_gpu": BATCH,
            "steps_per_print": 1_000_000,
            "zero_optimization": {"stage": 2, "overlap_comm": False},
        },
    )
    record = Record()
    for step in range(args.steps):
        loss = engine(tokens(step, rank, (BATCH, 129), 4096, device))
        engine.backward(loss)
        engine.step()
        record.step(step, bits([loss, *model.parameters()]), loss.item())
    record.end()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
