"""`net`: the resilient net with the fork's socket and IB transports, and what we build beside it (OUTPUTS)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from harness.build.cuda import cuda_include
from harness.build.inputs import Inputs, compiler_version, cuda_version, flags_from_environment, source_hashes
from harness.build.make import log_of, make_arguments, run_make
from harness.build.record import Record, forget, hashes, is_current, known, unfinished
from harness.errors import UsageError
from harness.files.lock import exclusive
from harness.fork.tree import ensure
from harness.progress import Progress, show
from harness.repo import Installed, Layout, checkout, programs
from harness.schemas.form import form

OUTPUTS = {
    "library": "libr2cc_net.so",
    "bench": "r2cc_bench",
    "sampler": "r2cc_sampler",
    "planner": "libr2cc_plan.so",
    "simulator": "libr2cc_sim.so",
    "progress": "libr2cc_progress.so",
    "faults": "libr2cc_faults.so",
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
    faults: Path
    build_id: str
    rebuilt: bool


def build_net(
    source: str | None = None,
    progress: Progress = show,
    *,
    verbose: bool = False,
    layout: Layout | None = None,
) -> NetBuild:
    """Fetch, patch and compile as far as anything changed; what pip installed is taken as it is.

    Raises SourceError, BuildError or UsageError.
    """
    layout = layout or programs()
    if isinstance(layout, Installed):
        return _result(layout.net, str(known(layout.net)["build_id"]), rebuilt=False)
    with exclusive(layout.cache / "locks" / "build.lock", "building"):
        status = ensure(layout, source, progress=progress)
        cuda = cuda_include(layout, progress)
        inputs = Inputs(
            nccl_version=status.version,
            nccl_tree=status.tree_hash or status.pinned_tree,
            patches=[patch.name for patch in status.applied],
            edited=status.edited,
            sources=source_hashes(layout.native),
            compiler=compiler_version(layout.tool("g++")),
            cuda_include=str(cuda),
            cuda_version=cuda_version(cuda),
            flags=flags_from_environment(),
        )
        files = [layout.net / name for name in OUTPUTS.values()]
        if is_current(layout.net, asdict(inputs), "outputs", files):
            return _result(layout.net, inputs.build_id, rebuilt=False)
        _remove_what_make_would_trust(layout.net, inputs)
        with unfinished(layout.net):
            arguments = [*make_arguments(layout, cuda), f"BUILD_ID={inputs.build_id}"]
            run_make(layout, "net", arguments, progress=progress, verbose=verbose)
        outputs = hashes(layout.net, files)
        Record(build_id=inputs.build_id, inputs=asdict(inputs), outputs=outputs).write(layout.net)
        return _result(layout.net, inputs.build_id, rebuilt=True)


def run_target(target: str, progress: Progress = show, *, verbose: bool = False, layout: Layout | None = None) -> Path:
    """Run another target of our Makefile, such as its tests, on what build_net made ready. Returns its log.

    What sanitizers see lies in a folder of its own, and so has a lock of its own. Tests run without a lock: they take
    minutes. Raises BuildError with the log's lines that say why, or UsageError for tests of another CPU.
    """
    layout = layout or checkout()
    is_test = target == "test" or target.startswith("test-")
    if is_test and layout.cpu is not None:
        hint = (
            f"`--then built-tests` compiles them; then qemu-{layout.cpu}-static, or a machine of that kind, runs them"
        )
        raise UsageError(f"{target}: programs for {layout.cpu} do not run here", hint)
    arguments = make_arguments(layout, cuda_include(layout, progress))
    name = target.rpartition("-")[2]
    with exclusive(layout.cache / "locks" / (f"{name}.lock" if name in SANITIZERS else "build.lock"), "building"):
        compiled = target.replace("test", "built", 1) if is_test else target
        run_make(layout, compiled, arguments, progress=progress, verbose=verbose)
    if is_test:
        run_make(layout, target, arguments, progress=progress, verbose=verbose)
    return log_of(layout, target)


def _remove_what_make_would_trust(folder: Path, inputs: Inputs) -> None:
    """Results go in any case (linking again takes a second), objects with other tools or after a kill."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("build.json", STAMP, *OUTPUTS.values()):
        (folder / name).unlink(missing_ok=True)
    forget(folder, "obj", "tools.json", [inputs.compiler, inputs.cuda_include, inputs.cuda_version, inputs.flags])


def _result(folder: Path, build_id: str, *, rebuilt: bool) -> NetBuild:
    return NetBuild(**{name: folder / file for name, file in OUTPUTS.items()}, build_id=build_id, rebuilt=rebuilt)
