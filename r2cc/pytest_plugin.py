"""R2CC in pytest: fixtures that make a lab and run experiments, and a marker for what a test needs.

    @pytest.mark.r2cc_needs("lab")
    def test_a_cable(r2cc_run):
        run = r2cc_run("experiments/nic_down.yaml", arms=["migrate"])
        assert run.verdict == "holds", run.reasons

pytest loads it by itself. Imports little, as every test run of every project would wait for it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.errors import UsageError
from r2cc.needs import missing
from r2cc.results import Run
from r2cc.running import RunFailed, Source, run

if TYPE_CHECKING:
    from harness.lab.lab import Lab
    from harness.lab.topology import Topology

MARKER = "r2cc_needs(*what, hosts=0, gpus=0): skip without them; what: root, lab, verbs"
RUNS = pytest.StashKey[list[Run]]()
FIGURES = ("stall_ms", "iteration_ms", "healthy_ms", "busbw_GBps", "wrong_elements", "iterations")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("r2cc")
    group.addoption("--r2cc-runs", metavar="DIR", help="Keep run directories here (else with the test's tmp_path).")
    group.addoption(
        "--r2cc-inventory", metavar="PLACE", default="lab", help="Where experiments run, as --inventory of r2cc (lab)."
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips with everything that is missing."""
    place = str(item.config.getoption("--r2cc-inventory"))
    try:
        lacks = [
            reason for mark in item.iter_markers("r2cc_needs") for reason in missing(place, *mark.args, **mark.kwargs)
        ]
    except UsageError as error:
        pytest.fail(str(error), pytrace=False)
    if lacks:
        pytest.skip("; ".join(dict.fromkeys(lacks)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails shows its runs."""
    report = yield
    if report.when == "call" and report.failed:
        report.sections += [(f"r2cc run {made.path.name}", _shown(made)) for made in item.stash.get(RUNS, [])]
    return report


class Runner:
    """What `r2cc_run` is: called as `r2cc.run`, with what the command line of pytest says of where."""

    def __init__(self, node: pytest.Item, site: str, out: Path) -> None:
        self._node, self._site, self._out = node, site, out

    def __call__(
        self, experiment: Source, arms: Sequence[str] | str | None = None, *, void_ok: bool = False, **options: Any
    ) -> Run:
        """The finished run. Skips the test when the machine was too busy to measure, unless `void_ok`; raises as
        `r2cc.run`."""
        try:
            made = run(experiment, arms, **{"site": self._site, "out": self._out, **options, "void_ok": void_ok})
        except RunFailed as error:
            self._note(error.run)
            raise
        self._note(made)
        if made.verdict == "void" and not void_ok:
            pytest.skip(f"the figures of {made.path} are void: {'; '.join(made.reasons[:2])}")
        return made

    def _note(self, made: Run) -> None:
        self._node.stash.setdefault(RUNS, []).append(made)
        self._node.user_properties.append(("r2cc_run", str(made.path)))


@pytest.fixture
def r2cc_run(request: pytest.FixtureRequest, tmp_path: Path) -> Runner:
    """Runs an experiment (a file, YAML text or a mapping) and returns its `r2cc.Run`. Takes what `r2cc.run` takes."""
    kept = request.config.getoption("--r2cc-runs")
    site = str(request.config.getoption("--r2cc-inventory"))
    return Runner(request.node, site, Path(str(kept)).absolute() if kept else tmp_path / "runs")


class LabMaker:
    """What `r2cc_lab` is."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __call__(self, topology: Path | str | Mapping[str, Any] | Topology | None = None, **keys: Any) -> Lab:
        """A lab that is up; it ends with the test. `topology`: a file, the name of a shipped one, YAML text or a
        mapping; or its keys alone, as hosts=2, nics=2. InputErrors for a wrong one, LabError where there can be none.
        """
        from harness.config.documents import Document
        from harness.lab.lab import Lab
        from harness.lab.topology import Topology, checked

        if isinstance(topology, Topology):
            asked = topology
        elif isinstance(topology, (str, Path)):
            asked = Topology.load(topology)
        else:
            asked = checked(Document("<topology>", {**(topology or {}), **keys}))
        return self._stack.enter_context(Lab.up(asked))


@pytest.fixture
def r2cc_lab() -> Iterator[LabMaker]:
    """Makes labs: hosts of this machine with NICs that can be broken. They end with the test."""
    with ExitStack() as stack:
        yield LabMaker(stack)


def _shown(made: Run) -> str:
    """Where it is, and what came of each arm."""
    lines = [f"{made.path}", f"verdict: {made.verdict}", *(f"  {reason}" for reason in made.reasons)]
    for name, arm in made.arms.items():
        lines.append(f"{name}: {arm.verdict}, " + ", ".join(f"{each} {getattr(arm, each):g}" for each in FIGURES))
    return "\n".join([*lines, f"r2cc report {made.path}"])
