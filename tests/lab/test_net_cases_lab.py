"""The net is never worse than stock, and saves what it promises to: every case of netcases, played by `net_driver`.

What is right is in the cases themselves; `benchmarks/net_cases.py` plays them beside stock
(docs/internals/net-cases.md).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from waits import until

from harness.build import build_net, run_target
from harness.errors import SourceError
from harness.progress import silent
from harness.repo import DEFAULT_NCCL, checkout

sys.path.insert(0, str(Path(__file__).parent))
from netcases.all_cases import CASES
from netcases.play import Outcome, Shape, Stage, made, stage
from netcases.waited import Waited, only_late, too_long

pytestmark = [pytest.mark.timed, pytest.mark.lab, pytest.mark.build, pytest.mark.timeout(120)]

AT_A_TIME = 3
AGAIN = 2
STOCK_MS: dict[tuple[Shape, int], float] = {}
"""Measured once for all cases that compare with stock."""
OTHERS = sorted(pin.stem for pin in checkout().pins.glob("*.toml") if pin.stem != DEFAULT_NCCL)
ON_OTHERS = (
    "table-v12",
    "table-v12-again",
    "table-v12-plain",
    "tcp-only",
    "one-flow",
    "subnet-cut-home1",
    "header",
    "fork-cut",
    "self-ranks",
    "stop-recv",
)
"""Of each kind one: what the transports of another NCCL could do otherwise."""


@pytest.fixture(scope="module")
def programs() -> tuple[Path, Path]:
    """The driver and the library."""
    library = build_net(progress=silent).library
    run_target("driver", silent)
    return library.with_name("net_driver"), library


@pytest.fixture
def stock(programs: tuple[Path, Path]) -> Iterator[Stage]:
    with stage(*programs, 0, STOCK_MS) as found:
        yield found


def told(found: Outcome) -> str:
    return f"seen: {found.seen}; {'; '.join(found.problems)}"


def settled(seen: Outcome, again: Callable[[], Outcome]) -> Outcome:
    """Where the machine may have made all that is wrong, the case is void and played again; the last outcome counts."""
    for _ in range(AGAIN):
        if only_late(seen.problems):
            seen = again()
    return seen


def rows() -> list[object]:
    return [
        pytest.param(name, mode, id=f"{name}-{mode}", marks=[pytest.mark.slow] if case.long else [])
        for name, case in CASES.items()
        for mode in case.modes
    ]


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, programs: tuple[Path, Path]
) -> Iterator[dict[tuple[str, int], Future[Outcome]]]:
    """All chosen cases, a few at a time: each mostly waits, on a bed of its own."""

    def play(name: str, mode: int) -> Outcome:
        with stage(*programs, mode, STOCK_MS) as found:
            return CASES[name].play(found)

    def play_beside_pytest(name: str, mode: int) -> Outcome:
        try:
            return play(name, mode)
        except KeyError as error:
            if error.args != ("PYTEST_CURRENT_TEST",):
                raise
            return play(name, mode)  # pytest took it out of os.environ while that was copied for a program

    items = [item for item in request.session.items if getattr(item, "originalname", "") == test_case.__name__]
    keys = [(item.callspec.params["name"], item.callspec.params["mode"]) for item in items]  # type: ignore[attr-defined]
    pool = ThreadPoolExecutor(AT_A_TIME)
    yield {key: pool.submit(play_beside_pytest, *key) for key in keys}
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize(("name", "mode"), rows())
def test_case(
    played: dict[tuple[str, int], Future[Outcome]], programs: tuple[Path, Path], name: str, mode: int
) -> None:
    def again() -> Outcome:
        with stage(*programs, mode, STOCK_MS) as found:
            return CASES[name].play(found)

    seen = settled(played[name, mode].result(), again)
    assert seen.problems == [], told(seen)


def test_only_what_the_machine_may_have_made_is_late() -> None:
    assert only_late([too_long("silent", 20.0, 30.0)])
    assert not only_late([too_long("silent", 40.0, 30.0)])
    assert not only_late([too_long("silent", 20.0, 30.0), "1 wrong"])
    assert not only_late([])


def test_the_kernel_says_what_a_busy_process_waited() -> None:
    """Two that compute on one core wait for each other; one that sleeps waits for nobody."""
    core = str(min(os.sched_getaffinity(0)))
    words = ["taskset", "-c", core, sys.executable, "-ISc"]
    with ExitStack() as running:
        found = []
        for program in ("while True: pass", "while True: pass", "import time; time.sleep(600)"):
            process = running.enter_context(subprocess.Popen([*words, program]))
            running.callback(process.kill)
            found.append(Waited(process.pid))

        def looked(each: Waited) -> float:
            each.look()
            return each.ms

        # The third waits, too, while it starts, and then no more. Who has ended waits no more, either.
        until(lambda: min(map(looked, found[:2])) > max(500.0, 2 * looked(found[2])))
    last = [each.ms for each in found]
    assert [looked(each) for each in found] == last


@pytest.mark.parametrize("name", ["exit-thread", "fork-send", "self-ranks", "stop-recv", "udp-start", "link-local"])
def test_stock_does_what_is_right_as_stock(stock: Stage, name: str) -> None:
    """Else the case would ask for more than it says."""
    seen = settled(CASES[name].play(stock), lambda: CASES[name].play(stock))
    assert seen.problems == [], told(seen)


@pytest.mark.parametrize("name", ["tcp-only", "subnet-cut-home1"])
def test_stock_is_not_saved(stock: Stage, name: str) -> None:
    """Else the fault would not be there, and the case could not fail."""
    seen = CASES[name].play(stock)
    assert any("silen" in problem for problem in seen.problems), told(seen)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", OTHERS)
def test_the_transports_of_another_nccl_do_the_same(version: str) -> None:
    layout = checkout(version)
    try:
        library = build_net(progress=silent, layout=layout).library
    except SourceError as error:
        pytest.skip(f"no source of NCCL {version}: {error.message.splitlines()[-1].strip()}")
    run_target("driver", silent, layout=layout)
    driver = library.with_name("net_driver")

    def play(name: str) -> list[str]:
        with stage(driver, library, 1, {}) as found:
            return [f"{name}: {problem}" for problem in CASES[name].play(found).problems]

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        problems = [problem for found in pool.map(play, ON_OTHERS) for problem in found]
    assert problems == []


def test_a_wrong_bit_is_seen(stock: Stage) -> None:
    """Else no case could find a wrong message."""
    with made() as bed:
        both = stock.pair(bed, "--messages", 64, send=("--corrupt", 20)).end()
    assert [end.exit_code for end in both.ends] == [0, 1]
    assert (both.receiver.last["done"], both.receiver.last["bad"]) == (64, 1)


def test_the_plugin_has_the_tables_of_the_net_alone(programs: tuple[Path, Path]) -> None:
    """NCCL then takes its own GIN, RMA, tuner and CollNet (docs/reference/nccl-versions.md)."""
    symbols = subprocess.run(["nm", "-D", "--defined-only", programs[1]], capture_output=True, text=True, check=True)
    found = {line.split()[-1] for line in symbols.stdout.splitlines()}
    assert {name for name in found if name.startswith("nccl")} == {f"ncclNetPlugin_v{n}" for n in range(8, 13)}


def test_the_driver_says_what_is_wrong_with_its_words(programs: tuple[Path, Path]) -> None:
    for words, said in (
        (["--role", "nobody"], "--role takes one of"),
        (["--role", "send"], "need --handle"),
        (["--bytes", "33"], "multiple of 8"),
        (["--messages"], "needs a value"),
        (["--table", "7"], "from 8 to 12"),
        (["--role", "init", "--rounds", "2"], "for --role self"),
        (["--listen-dev", "0,1"], "as many devices"),
    ):
        done = subprocess.run([programs[0], *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and said in done.stderr, (words, done.stderr)
