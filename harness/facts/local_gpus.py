"""The GPUs of this machine as the workloads' Python sees them, and CUDA's daemon for sharing one."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.errors import CommandError, InfraError, UsageError
from harness.hosts import Host, LocalHost

PROBE_S, DAEMON_S = 120.0, 30.0
PROBE = """
import json, torch
cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
nccl = ".".join(map(str, torch.cuda.nccl.version())) if cards else None
print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "torch_nccl": nccl,
                  "gpus": [torch.cuda.get_device_name(card) for card in range(cards)]}))
"""
MPS = "nvidia-cuda-mps-control"


@dataclass(frozen=True)
class Gpus:
    """What torch has here; `torch_nccl` is the NCCL that torch was built with, which the patched one stands in for."""

    torch: str
    cuda: str | None
    torch_nccl: str | None
    gpus: Sequence[str]


def probe(python: str, host: Host | None = None) -> Gpus:
    """Asks that Python, of this machine or of a host; takes some seconds. Raises UsageError when it has no torch."""
    where = "" if host is None else f"{host.name}: "
    try:
        result = (host or LocalHost()).run([python, "-c", PROBE], timeout_s=PROBE_S)
        return Gpus(**json.loads(result.stdout.splitlines()[-1]))
    except (CommandError, ValueError, IndexError, TypeError) as error:
        why = error.message.splitlines()[-1] if isinstance(error, CommandError) else str(error)
        raise UsageError(
            f"{where}workloads on GPUs need a Python with torch, and {python} does not do: {why.strip(' |')}",
            "name one with --python, or R2CC_PYTHON",
        ) from error


def enough(found: Gpus, ranks: int, *, share: bool) -> int:
    """How many GPUs `ranks` ranks use. Raises InfraError when there are not as many, and none may be shared."""
    cards = len(found.gpus)
    if cards == 0 or (cards < ranks and not share):
        raise InfraError(
            f"{ranks} GPUs are needed, and torch sees {cards} here",
            "run it on a machine with GPUs" if cards == 0 else "let ranks share them: --share-gpus",
        )
    return min(cards, ranks)


def visible(cards: Sequence[int]) -> str:
    """CUDA_VISIBLE_DEVICES for some of the GPUs that this process may use; its own may name them."""
    mine = [word.strip() for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
    return ",".join(mine[card] if card < len(mine) else str(card) for card in cards)


@contextmanager
def shared(*, enabled: bool) -> Iterator[dict[str, str]]:
    """While it lasts, kernels of several processes run side by side on one GPU (CUDA's MPS); what they must be told.

    Without it NCCL's kernels of one rank would wait for those of another that cannot start. The daemon is ours alone.
    """
    if not enabled:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="r2cc-mps-") as folder:
        env = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": str(Path(folder) / "log")}
        _control(["-d"], env, None)
        try:
            yield env
        finally:
            _control([], env, "quit\n")


def _control(words: Sequence[str], env: dict[str, str], input: str | None) -> None:
    try:
        subprocess.run(
            [MPS, *words], env={**os.environ, **env}, input=input, text=True, timeout=DAEMON_S, check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise InfraError(f"CUDA's MPS refused a command: {error}", f"see whether {MPS} works here") from error
