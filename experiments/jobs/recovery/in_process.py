"""Training that is restarted inside its processes, by NVIDIA's nvidia-resiliency-ext, without the ranks that are lost.

R2CC survives the loss of NICs by itself. When a host has no path left, it ends the communicator after R2CC_HOLD_MS, and
`train` ends with an error that says why. The wrapper then calls it again on all ranks whose health check passes: here,
whose host has a NIC with a carrier. With --cpu it runs over gloo; `--leave 1:5` makes rank 1 leave in step 5.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from pathlib import Path

os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")  # errors are raised here, and do not end the process
os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")

try:
    import torch
    import torch.distributed as dist
    from nvidia_resiliency_ext import inprocess
except ModuleNotFoundError as error:
    print(f"in_process.py needs torch and nvidia-resiliency-ext: this Python has no {error.name}", file=sys.stderr)
    sys.exit(2)

STATE: dict[str, int] = {"step": 0}
"""What outlives a restart; a real job keeps its model and optimizer here, or loads a checkpoint."""
STORE_LIMIT = datetime.timedelta(seconds=60)


class HasCarrier(inprocess.health_check.HealthCheck):
    """A rank whose host has lost all of its NICs leaves: the others cannot reach it."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __call__(self, state: inprocess.state.FrozenState) -> inprocess.state.FrozenState:
        carriers = [Path("/sys/class/net", name, "carrier") for name in self._names]
        if carriers and not any(up(file) for file in carriers):
            raise inprocess.exception.HealthCheckError(f"none of {', '.join(self._names)} has a carrier")
        return state


def up(carrier: Path) -> bool:
    """An interface that is set down has a file that cannot be read."""
    try:
        return carrier.read_text().strip() == "1"
    except OSError:
        return False


def train(args: argparse.Namespace) -> int:
    """All-reduces, every element checked; from the step where all ranks of this call can go on."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cpu")
    if not args.cpu:
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    dist.init_process_group("gloo" if args.cpu else "nccl", timeout=datetime.timedelta(seconds=args.limit_s))
    first = torch.tensor([STATE["step"]], device=device)
    dist.all_reduce(first, dist.ReduceOp.MIN)
    places = torch.arange(args.mib << 18, device=device, dtype=torch.int64)
    for step in range(int(first), args.steps):
        if args.leave == f"{rank}:{step}" and ranks == int(os.environ["STARTED_WITH"]):
            os.abort()
        base = (places + step) % 1009
        data = (base * (rank + 1)).float()
        dist.all_reduce(data)
        wrong = int((data != (base * (ranks * (ranks + 1) // 2)).float()).sum())
        if wrong:
            raise SystemExit(f"step {step}: {wrong} wrong elements")
        STATE["step"] = step + 1
        print(f"step {step} of {ranks} ranks, sum {int(data[:1000].sum())}", flush=True)
    dist.destroy_process_group()
    return ranks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--mib", type=int, default=16, help="size of one all-reduce")
    parser.add_argument("--limit-s", type=float, default=60.0, help="of a collective: longer than R2CC_HOLD_MS")
    parser.add_argument("--nics", default="", help="the host's data NICs, separated by commas: eth0,eth1")
    parser.add_argument("--cpu", action="store_true", help="gloo instead of NCCL, for a test without GPUs")
    parser.add_argument("--leave", metavar="RANK:STEP", help="that rank's process dies there")
    args = parser.parse_args()
    os.environ["STARTED_WITH"] = os.environ["WORLD_SIZE"]
    wrapper = inprocess.Wrapper(  # its store beside that of the process group
        store_kwargs={"port": int(os.environ["MASTER_PORT"]) + 1, "timeout": STORE_LIMIT},
        initialize=inprocess.initialize.RetryController(max_iterations=4),
        health_check=HasCarrier(tuple(filter(None, args.nics.split(",")))),
        heartbeat_interval=datetime.timedelta(seconds=1),
        heartbeat_timeout=datetime.timedelta(seconds=10),
    )
    ranks = wrapper(lambda: train(args))()  # it looks at annotations, which are texts here
    print(f"done with {ranks} ranks", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
