"""Which kernels `--funcs` leaves in: asked of NCCL's own generator before minutes are spent on compiling.

A kernel that was left out does nothing and says nothing, so that what a list names and does not match must be an error.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from harness.errors import BuildError, CommandError, UsageError
from harness.hosts import LocalHost

COLLECTIVES = ("SendRecv", "AllGather", "AllGatherV", "Broadcast", "AllReduce", "Reduce", "ReduceScatter")
GENERATOR, TABLE = Path("src", "device", "generate.py"), "host_table.cc"
LIMIT_S = 60.0


def kernels(tree: Path, funcs: str) -> Mapping[str, int]:
    """How many of each collective's functions NCCL would build; those with none are left out. Raises BuildError."""
    with tempfile.TemporaryDirectory(prefix="r2cc-kernels-") as folder:
        try:
            LocalHost().run([sys.executable, str(tree / GENERATOR), folder, funcs], timeout_s=LIMIT_S)
            table = Path(folder, TABLE).read_text(encoding="utf-8")
        except (CommandError, OSError) as error:
            message = f"NCCL's {GENERATOR} does not say which kernels `{funcs}` leaves: {error}"
            raise BuildError(message, "build without --funcs, or fetch NCCL again: r2cc fork refresh") from error
    return Counter(name for name in re.findall(r"// (\w+)", table) if name in COLLECTIVES)


def check_kernels(tree: Path, funcs: str) -> None:
    """Raises UsageError where `funcs` (NCCL's ONLY_FUNCS) names collectives that it leaves without a kernel."""
    said = {word.lower() for word in re.findall(r"[A-Za-z]+", funcs)}
    found = kernels(tree, funcs)
    lost = [name for name in COLLECTIVES if name.lower() in said and not found.get(name)]
    if lost or not found:
        raise UsageError(
            f"--funcs '{funcs}' leaves no kernel of {', '.join(lost) or 'any collective'}",
            "NCCL matches the last pattern whole, the others from their beginning: "
            '"SendRecv|AllReduce Sum f32 * *" or "AllReduce Sum f32|SendRecv"',
        )
