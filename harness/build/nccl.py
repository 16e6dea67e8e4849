"""`nccl`: the whole patched libnccl.so.2, a drop-in for stock of the same version.

Our sources are compiled by our own Makefile into one object, NCCL's by NCCL's; that object is one more of its link.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.build.abi import check_exports, check_loads
from harness.build.cuda import cuda_include
from harness.build.inputs import compiler_version
from harness.build.kernels import check_kernels
from harness.build.make import OWN_FLAGS, follow, make_arguments, run_make
from harness.build.net import build_net
from harness.build.record import Record, forget, hashes, id_of, is_current, known, unfinished
from harness.errors import BuildError, CommandError, UsageError
from harness.files.lock import exclusive
from harness.fork.pin import load_pin
from harness.hosts import LocalHost
from harness.progress import Progress, show
from harness.repo import Layout, checkout
from harness.schemas.form import form

ARCH = re.compile(r"sm_([0-9]{2,3}[af]?)")
FUNCS = re.compile(r"[A-Za-z0-9_*|, ()]+")
ALL = "all"
LIMIT_S = 4 * 3600.0
FEW_S = 1800.0


@dataclass(frozen=True)
class NcclInputs:
    """What went into a build of the whole library. `net` is the build id of our part and the fork."""

    net: str
    arch: list[str]
    funcs: str
    nvcc: str
    compiler: str

    @property
    def build_id(self) -> str:
        return id_of(asdict(self))


@form("build")
@dataclass(frozen=True)
class NcclBuild:
    """What was built, by absolute path. `rebuilt` is false when everything was there already."""

    library: Path
    build_id: str
    rebuilt: bool


def build_nccl(
    arch: Sequence[str] = (),
    funcs: str = "",
    source: str | None = None,
    progress: Progress = show,
    *,
    stock: Path | None = None,
    verbose: bool = False,
    layout: Layout | None = None,
) -> NcclBuild:
    """Fetch, patch and compile as far as anything changed.

    `arch`: sm_90 and the like, or `all` for NCCL's own list; empty: those of this machine's GPUs. `funcs`: NCCL's
    ONLY_FUNCS, which kernels to build; empty: all. `stock`: a libnccl whose symbols ours must export, no more, no less.
    Raises UsageError, SourceError or BuildError.
    """
    layout = layout or checkout()
    wanted = checked(arch, funcs)
    nvcc = compiler_of(cuda_include(layout, progress))
    if " " in str(layout.root):
        message = f"NCCL's own makefiles cannot build in a path with a space: {layout.root}"
        raise UsageError(message, "clone R2CC into a path without one (`r2cc build net` works anywhere)")
    net = build_net(source, progress, verbose=verbose, layout=layout)
    with exclusive(layout.cache / "locks" / "build.lock", "building"):
        inputs = NcclInputs(net.build_id, wanted, funcs, _version(nvcc), compiler_version())
        library = layout.nccl / "lib" / f"libnccl.so.{load_pin(layout.pin).version.partition('-')[0]}"
        rebuilt = not is_current(layout.nccl, asdict(inputs), "library", [library])
        if rebuilt:
            if funcs:
                check_kernels(layout.tree, funcs)
            _remove_what_make_would_trust(layout.nccl, inputs)
            _compile(layout, nvcc, inputs, progress, verbose=verbose)
        if stock is not None:
            check_exports(library, stock)
        check_loads(library, load_pin(layout.pin).version)
        outputs = hashes(layout.nccl, [library])
        Record(build_id=inputs.build_id, inputs=asdict(inputs), library=outputs).write(layout.nccl)
        return NcclBuild(library, inputs.build_id, rebuilt)


def checked(arch: Sequence[str], funcs: str) -> list[str]:
    """The architectures wanted, in order, each once. Raises UsageError."""
    if funcs and not FUNCS.fullmatch(funcs):
        raise UsageError(f"--funcs '{funcs}' is none of NCCL's patterns", 'for example "AllReduce Sum f32|SendRecv"')
    wrong = [name for name in arch if name != ALL and not ARCH.fullmatch(name)]
    if wrong:
        raise UsageError(f"no architecture: {', '.join(wrong)}", "sm_90 (H100, H200), sm_80 (A100), ..., or all")
    wanted = sorted(set(arch)) or gpus_here()
    if not wanted:
        raise UsageError("no GPU here that would say which architecture is wanted", "--arch sm_90, or --arch all")
    if ALL in wanted and len(wanted) > 1:
        raise UsageError("--arch all takes no other architecture beside it", "name either all or those that you want")
    return wanted


def gpus_here() -> list[str]:
    """The architectures of this machine's GPUs."""
    try:
        query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
        lines = LocalHost().run(query, timeout_s=30).stdout.split()
    except CommandError:
        return []
    return sorted({f"sm_{line.replace('.', '')}" for line in lines if re.fullmatch(r"\d+\.\d", line)})


def compiler_of(include: Path) -> Path:
    """The toolkit's nvcc. Raises BuildError where only headers are installed."""
    nvcc = include.parent / "bin" / "nvcc"
    if not nvcc.is_file():
        raise BuildError(f"no nvcc beside {include}", "install a CUDA 13 toolkit, or set CUDA_HOME to one")
    return nvcc


def nccl_make(layout: Layout, nvcc: Path, inputs: NcclInputs) -> list[str]:
    """The command line for NCCL's own makefiles."""
    jobs = len(os.sched_getaffinity(0))
    flags = gencode(inputs.arch)
    return [
        *("make", "-C", str(layout.tree / "src"), "--no-print-directory", f"-j{jobs}", "lib"),
        *(f"BUILDDIR={layout.nccl}", f"CUDA_HOME={nvcc.parent.parent}"),
        *([f"NVCC_GENCODE={flags}"] if flags else []),
        *([f"ONLY_FUNCS={inputs.funcs}"] if inputs.funcs else []),
    ]


def gencode(arch: Sequence[str]) -> str:
    """nvcc's words for these architectures; none for all, which makefiles know themselves."""
    numbers = [name.removeprefix("sm_") for name in arch if name != ALL]
    return " ".join(f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers)


def known_build(layout: Layout) -> dict[str, Any]:
    """build.json of the library that is there. Raises UsageError when none is."""
    try:
        return known(layout.nccl)
    except (OSError, ValueError) as error:
        raise UsageError(f"no NCCL in {layout.nccl}", "r2cc build nccl") from error


def nccl_env(layout: Layout, environ: dict[str, str]) -> dict[str, str]:
    """NCCL's makefiles add to these what they need: our headers, our object."""
    headers = [str(layout.native / "src"), str(layout.native / "nccl"), *filter(None, [environ.get("CPATH")])]
    objects = [str(layout.net / "r2cc_core.o"), str(_stamp(layout.nccl)), *filter(None, [environ.get("LDFLAGS")])]
    return {**OWN_FLAGS, "CPATH": ":".join(headers), "LDFLAGS": " ".join(objects)}


def _compile(layout: Layout, nvcc: Path, inputs: NcclInputs, progress: Progress, *, verbose: bool) -> None:
    own = [*make_arguments(layout, nvcc.parent.parent / "include"), f"BUILD_ID={inputs.build_id}"]
    own.append(f"STAMP={os.path.relpath(_stamp(layout.nccl), layout.native)}")
    with unfinished(layout.nccl):
        run_make(layout, "core", own, progress=progress, verbose=verbose)
        follow(
            nccl_make(layout, nvcc, inputs),
            "NCCL",
            layout.nccl / "build.log",
            env=nccl_env(layout, dict(os.environ)),
            far=lambda text: f"{text.count('Compiling')} files",
            progress=progress,
            verbose=verbose,
            limit_s=FEW_S if inputs.funcs and ALL not in inputs.arch else LIMIT_S,
        )


def _stamp(folder: Path) -> Path:
    return folder / "build_id.o"


def _remove_what_make_would_trust(folder: Path, inputs: NcclInputs) -> None:
    """The library goes in any case; kernels with other architectures or functions, all objects with other tools."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (folder / "build.json", _stamp(folder)):
        path.unlink(missing_ok=True)
    shutil.rmtree(folder / "lib", ignore_errors=True)
    forget(folder, "obj", "obj.json", [inputs.nvcc, inputs.compiler])
    forget(folder, "obj/device", "obj-device.json", [inputs.arch, inputs.funcs])


def _version(nvcc: Path) -> str:
    lines = LocalHost().run([str(nvcc), "--version"], timeout_s=30).stdout.splitlines()
    return lines[-1] if lines else str(nvcc)
