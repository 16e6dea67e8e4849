"""Replicas that go on when one of them is lost, by torchft; each process is one replica.

R2CC survives the loss of NICs by itself. When a host has no path left, it ends the communicator after R2CC_HOLD_MS.
Then torchft drops the step that was under way, asks its lighthouse who is left, and goes on with them. A replica that
starts again gets the state of the others. Start `torchft_lighthouse --min_replicas 2` first, and say where it is in
TORCHFT_LIGHTHOUSE. With --cpu it runs over gloo; `--leave 1:5` makes replica 1 die in step 5.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import os
import sys
from datetime import timedelta

try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo, ProcessGroupNCCL
except ModuleNotFoundError as error:
    print(f"torchft_replicas.py needs torch and torchft: this Python has no {error.name}", file=sys.stderr)
    sys.exit(2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--width", type=int, default=1024, help="of each of the model's layers")
    parser.add_argument("--limit-s", type=float, default=60.0, help="of a collective: longer than R2CC_HOLD_MS")
    parser.add_argument("--cpu", action="store_true", help="gloo instead of NCCL, for a test without GPUs")
    parser.add_argument("--leave", metavar="REPLICA:STEP", help="that replica dies there")
    args = parser.parse_args()
    replica = int(os.environ.get("REPLICA", os.environ.get("RANK", "0")))
    torch.manual_seed(1)
    device = torch.device("cpu")
    if not args.cpu:
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    model: nn.Module = nn.Sequential(*(nn.Linear(args.width, args.width) for _ in range(4))).to(device)
    plain = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    parts = {"model": model, "optimizer": plain}
    limit = timedelta(seconds=args.limit_s)
    store = dist.TCPStore("localhost", 0, is_master=True)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=limit) if args.cpu else ProcessGroupNCCL(timeout=limit),
        load_state_dict=lambda state: [part.load_state_dict(state[name]) for name, part in parts.items()],
        state_dict=lambda: {name: part.state_dict() for name, part in parts.items()},
        min_replica_size=1,
        timeout=limit,
        rank=0,
        world_size=1,
        store_addr="localhost",
        store_port=store.port,
        replica_id=f"replica-{replica}",
    )
    wrapped, optimizer = DistributedDataParallel(manager, model), Optimizer(manager, plain)
    while (step := manager.current_step()) < args.steps:
        if args.leave == f"{replica}:{step}":
            os.abort()
        source = torch.Generator().manual_seed(1_000_003 * step + replica)
        batch = torch.randn(16, args.width, generator=source).to(device)
        optimizer.zero_grad()
        wrapped(batch).square().mean().backward()
        optimizer.step()
        if (reached := manager.current_step()) > step:  # by many, where the others' state was taken over
            print(f"step {reached - 1} of {manager.num_participants()} replicas, result {digest(model)}", flush=True)
        else:
            print(f"step {step} is not taken: {manager.errored() or 'another replica failed'}", flush=True)
    manager.shutdown(wait=False)
    return 0


def digest(model: nn.Module) -> str:
    """The same on all replicas after each step. Without NumPy, which torch does not need."""
    words = hashlib.sha256()
    for each in model.parameters():
        data = each.detach().cpu().contiguous()
        words.update(ctypes.string_at(data.data_ptr(), data.numel() * data.element_size()))
    return words.hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
