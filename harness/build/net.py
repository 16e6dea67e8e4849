"""`net`: the resilient net with the fork's socket and IB transports, and what we build beside it (OUTPUTS)."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.build.cuda import cuda_include
from harness.build.inputs import Inputs, compiler_version, cuda_version, flags_from_environment, source_hashes
from harness.build.make import log_of, make_arguments, run_make
from harness.build.record import Record, known
from harness.errors import BuildError
from harness.files.lock import exclusive
from harness.fork.tree import ensure
from harness.progress import Progress, show
from harness.repo import Layout, checkout
from harness.schemas.form import form

OUTPUTS = {
    "library": "libr2cc_net.so",
    "bench": "r2cc_bench",
    "sampler": "r2cc_sampler",
    "planner": "libr2cc_plan.so",
    "simulator": "libr2cc_sim.so",
    "progress": "libr2cc_progress.so",
}
SANITIZERS = ("asan", "tsan")
STAMP = "obj/src/stamp/build_id.o"


@form("build", "r2cc build net, r2cc build nccl")
@dataclass(frozen=True)
class NetBuild:
    """What was built, by absolute path. `rebuilt` is false when everything was there already."""

    library: Path
    bench: Path
    sampler: Path
    planner: Path
    simulator: Path
    progress: Path
    build_id: str
    rebuilt: bool


def build_net(
    source: str | None = None,
    progress: Progress = show,
    *,
    verbose: bool = False,
    layout: Layout | None = None,
) -> NetBuild:
    """Fetch, patch and compile as far as anything changed. Raises SourceError, BuildError or UsageError."""
    layout = layout or checkout()
    with exclusive(layout.cache / "locks" / "build.lock", "building"):
        status = ensure(layout, source, progress=progress)
        cuda = cuda_include(layout, progress)
        inputs = Inputs(
            nccl_version=status.version,
            nccl_tree=status.tree_hash or status.pinned_tree,
            patches=[patch.name for patch in status.applied],
            edited=status.edited,
            sources=source_hashes(layout.native),
            compiler=compiler_version(),
            cuda_include=str(cuda),
            cuda_version=cuda_version(cuda),
            flags=flags_from_environment(),
        )
        if is_current(layout.net, inputs):
            return _result(layout.net, inputs.build_id, rebuilt=False)
        _remove_what_make_would_trust(layout.net, inputs)
        unfinished = layout.net / "unfinished"
        unfinished.touch()
        try:
            arguments = [*make_arguments(layout, cuda), f"BUILD_ID={inputs.build_id}"]
            run_make(layout, "net", arguments, progress=progress, verbose=verbose)
        finally:
            unfinished.unlink()
        _record(layout.net, inputs)
        return _result(layout.net, inputs.build_id, rebuilt=True)


def run_target(target: str, progress: Progress = show, *, verbose: bool = False, layout: Layout | None = None) -> Path:
    """Run another target of our Makefile, such as its tests, on what build_net made ready. Returns its log.

    What sanitizers see lies in a folder of its own, and so has a lock of its own. Tests run without a lock: they take
    minutes. Raises BuildError with the log's lines that say why.
    """
    layout = layout or checkout()
    arguments = make_arguments(layout, cuda_include(layout, progress))
    is_test = target == "test" or target.startswith("test-")
    name = target.rpartition("-")[2]
    with exclusive(layout.cache / "locks" / (f"{name}.lock" if name in SANITIZERS else "build.lock"), "building"):
        compiled = target.replace("test", "built", 1) if is_test else target
        run_make(layout, compiled, arguments, progress=progress, verbose=verbose)
    if is_test:
        run_make(layout, target, arguments, progress=progress, verbose=verbose)
    return log_of(layout, target)


def _remove_what_make_would_trust(folder: Path, inputs: Inputs) -> None:
    """make compares times of files. It sees neither another compiler, nor what a killed make left half written.

    Results go in any case (linking again takes a second), objects with other tools or after a kill.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("build.json", STAMP, *OUTPUTS.values()):
        (folder / name).unlink(missing_ok=True)
    tools = json.dumps([inputs.compiler, inputs.cuda_include, inputs.cuda_version, inputs.flags]) + "\n"
    recorded = folder / "tools.json"
    if not recorded.is_file() or recorded.read_text() != tools or (folder / "unfinished").exists():
        shutil.rmtree(folder / "obj", ignore_errors=True)
        recorded.write_text(tools)


def is_current(folder: Path, inputs: Inputs) -> bool:
    """True if build.json names the same inputs and the files it names are still as make left them."""
    try:
        there = known(folder)
        return bool(there["inputs"] == asdict(inputs) and there["outputs"] == _output_hashes(folder))
    except (OSError, ValueError, KeyError):
        return False


def _output_hashes(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in OUTPUTS.values()}


def _record(folder: Path, inputs: Inputs) -> None:
    try:
        outputs = _output_hashes(folder)
    except FileNotFoundError as error:
        raise BuildError(f"make made no {error.filename}", f"see {folder / 'build.log'}") from error
    Record(build_id=inputs.build_id, inputs=asdict(inputs), outputs=outputs).write(folder)


def _result(folder: Path, build_id: str, *, rebuilt: bool) -> NetBuild:
    return NetBuild(
        library=folder / OUTPUTS["library"],
        bench=folder / OUTPUTS["bench"],
        sampler=folder / OUTPUTS["sampler"],
        planner=folder / OUTPUTS["planner"],
        simulator=folder / OUTPUTS["simulator"],
        progress=folder / OUTPUTS["progress"],
        build_id=build_id,
        rebuilt=rebuilt,
    )
