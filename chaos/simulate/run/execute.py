"""Who runs cells: this process, processes of this machine, or the workers of a Dask cluster.

Each gives (cell, result) as cells finish, in any order; nothing about a result depends on who ran it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from typing import Any, Protocol

from chaos.simulate.run import cell as run
from chaos.simulate.run.cell import CellResult, Payload
from chaos.simulate.workloads.cells import Cell
from harness.errors import InfraError, UsageError, extra_hint
from harness.workers import crew

AHEAD = 2
"""Cells given out for each worker: one that it runs, and the next."""
CONNECT_S = 15.0


class Executor(Protocol):
    """`run` yields every cell once with its result."""

    def run(self, payload: Payload, cells: Sequence[Cell]) -> Iterator[tuple[Cell, CellResult]]: ...


class Here:
    """This process, one cell after the other."""

    def run(self, payload: Payload, cells: Sequence[Cell]) -> Iterator[tuple[Cell, CellResult]]:
        for cell in cells:
            yield cell, run.run_cell(payload, cell)


class Processes:
    """New processes, which share nothing: a fork would take over locks, and half of what libraries remember."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, payload: Payload, cells: Sequence[Cell]) -> Iterator[tuple[Cell, CellResult]]:
        count = min(self.workers, len(cells))
        with crew(count, begin=_begin, given=(payload,), hint="go on with --resume") as pool:
            yield from _bounded(lambda cell: pool.submit(_run, cell), cells, count * AHEAD)


def _bounded(
    submit: Callable[[Cell], Future[CellResult]], cells: Sequence[Cell], most: int
) -> Iterator[tuple[Cell, CellResult]]:
    """No more than `most` given out at once: a result waits for nobody, and an interrupt loses little."""
    left = iter(cells)
    out: dict[Future[CellResult], Cell] = {}
    while True:
        for cell in left:
            out[submit(cell)] = cell
            if len(out) >= most:
                break
        if not out:
            return
        done, _ = wait(out, return_when=FIRST_COMPLETED)
        for future in done:
            yield out.pop(future), future.result()


_given: list[Payload] = []


def _begin(payload: Payload) -> None:
    _given[:] = [payload]


def _run(cell: Cell) -> CellResult:
    return run.run_cell(_given[0], cell)


class Dask:
    """The workers of a Dask cluster, each of which has this r2cc installed with its libraries built."""

    def __init__(self, address: str) -> None:
        self.address = address

    def run(self, payload: Payload, cells: Sequence[Cell]) -> Iterator[tuple[Cell, CellResult]]:
        distributed = _distributed()
        hint = "`dask scheduler` prints its address, `dask worker ADDRESS` joins it"
        try:
            client = distributed.Client(self.address, timeout=CONNECT_S)
        except (OSError, ValueError) as error:
            raise InfraError(f"no Dask scheduler answers at {self.address}: {error}", hint) from error
        except MemoryError as error:  # a stranger's bytes, read as the length of a message
            raise InfraError(f"what answers at {self.address} is no Dask scheduler", hint) from error
        with client:
            workers = sum(client.nthreads().values())
            if not workers:
                raise InfraError(f"the scheduler {self.address} has no workers", f"dask worker {self.address}")
            pool = client.get_executor(pure=False)
            sent = client.scatter(payload, broadcast=True, hash=False)
            try:
                yield from _bounded(lambda cell: pool.submit(run.run_cell, sent, cell), cells, workers * AHEAD)
            except distributed.KilledWorker as error:
                raise InfraError(f"workers ended while they ran a cell: {error}", "go on with --resume") from error
            except (ModuleNotFoundError, AttributeError) as error:
                raise InfraError(f"the workers cannot run cells: {error}", "install r2cc at every worker") from error
            finally:
                pool.shutdown(wait=False)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise UsageError("--scheduler needs the package distributed", extra_hint("dask")) from error
    with suppress(ImportError):
        import dask

        dask.config.set({"distributed.comm.timeouts.connect": f"{CONNECT_S:g}s"})
    return distributed
