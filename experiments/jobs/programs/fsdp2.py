"""Training with torch's FSDP2: every layer of a small Llama is split over all ranks, gathered when it is needed."""

from __future__ import annotations

import missing  # noqa: F401 - the first of these: see there

# isort: split
import torch
import torch.distributed as dist
from llama import Llama
from ranks import bits, join, options, tokens
from record import Record
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main() -> None:
    parser = options(__doc__, 60)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=512)
    args = parser.parse_args()
    device = join(args.cpu)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = Llama(args.layers, args.hidden, heads=8, vocabulary=4096).to(device)
    mesh = init_device_mesh(device.type, (ranks,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    record = Record()
    for step in range(args.steps):
        loss = model(tokens(step, rank, (4, 129), 4096, device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        # Of a rank its own part of the parameters, which all of them have made.
        record.step(step, bits([loss, *(each.to_local() for each in model.parameters())]), loss.item())
    record.end()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
