"""All-reduces that somebody timed: what nccl-tests print or write (-J), and the table that NCCL prints at its start."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.workloads.nccltests.report import Lines, read_json
from harness.workloads.nccltests.rows import Row

HINT = "give rows of all_reduce_perf (text, or JSON of -J), or a log with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING"
DEVICE = re.compile(r"^#\s+Rank\s+(\d+)\s.*\son\s+(\S+)\s+device\s", re.MULTILINE)
PROGRAM = re.compile(r"Collective test starting:\s*(\S+)")
SIZE_OF_JOB = re.compile(r"nRanks\s+(\d+)\s+nNodes\s+(\d+)")
CELL = re.compile(r"\s*([\d.]+)\s*/\s*([\d.]+)\s*")
WAYS = {"ring": "ring", "tree": "tree", "nvlstree": "nvlstree", "nvls_tree": "nvlstree"}
OF_TABLE = "simple"
LATENCY_BYTES, BAND_BYTES = 1, 1 << 36
"""A size whose bytes take no time, and one whose hops take none."""
ALL_REDUCE = "all_reduce_perf"
RANKS = "say with --gpus how many ranks each had"
LIST = "keep the lines in which nccl-tests lists its ranks, or take its JSON (-J)"


@dataclass(frozen=True)
class Measured:
    """`way`: algorithm, or algorithm/protocol, as the planner names NCCL's; empty: not known."""

    nodes: int
    gpus: int
    bytes: int
    us: float
    way: str = ""


def read(path: Path, gpus: int | None, way: str) -> list[Measured]:
    """Of one file. `gpus`: ranks a node, for files that do not say it; `way`: the same of the algorithm.

    Raises UsageError for what has no rows, other collectives', or does not say how many nodes there were."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", HINT) from error
    found = list(_of_json(text, path, gpus, way) if text.lstrip().startswith("{") else _of_text(text, path, gpus, way))
    if not found:
        raise UsageError(f"{path.name} has no all-reduces with their times", HINT)
    return found


def _of_json(text: str, path: Path, gpus: int | None, way: str) -> Iterator[Measured]:
    """nccl-tests' own. Newer ones say what NCCL chose."""
    report = read_json(text)
    try:
        whole: Mapping[str, Any] = json.loads(text)
    except ValueError:
        whole = {}
    programs = [str(each) for each in whole.get("args") or ()][:1]
    _check_program(programs[0] if programs else "", path)
    devices = [each for each in (whole.get("config") or {}).get("devices") or () if isinstance(each, dict)]
    hosts = [str(each.get("hostname")) for each in devices]
    ways = {each.get("size"): _chosen(each.get("tuning")) for each in whole.get("results") or ()}
    if not report.rows:
        return
    nodes, each_gpus = _shape(len(hosts) or report.ranks, hosts, gpus, path)
    for row in _one_each(report.rows):
        yield Measured(nodes, each_gpus, row.size_bytes, row.time_us or 0.0, way or ways.get(row.size_bytes) or "")


def _chosen(tuning: Any) -> str:
    if not isinstance(tuning, dict):
        return ""
    algorithm = WAYS.get(str(tuning.get("algo")).lower(), "")
    return f"{algorithm}/{str(tuning.get('proto')).lower()}" if algorithm else ""


def _of_text(text: str, path: Path, gpus: int | None, way: str) -> Iterator[Measured]:
    table = list(_of_table(text))
    if table:
        yield from table
        return
    program = PROGRAM.search(text)
    _check_program(program[1] if program else "", path)
    lines = Lines()
    for line in text.splitlines(keepends=True):
        lines.add(line if line.endswith("\n") else f"{line}\n")
    rows = _one_each(lines.rows)
    if not rows:
        return
    ranks = dict(DEVICE.findall(text))
    nodes, each_gpus = _shape(len(ranks) or _ranks_of(rows), list(ranks.values()), gpus, path)
    for row in rows:
        yield Measured(nodes, each_gpus, row.size_bytes, row.time_us or 0.0, way)


def _one_each(rows: list[Row]) -> list[Row]:
    """Out of place, or in place where nothing else was timed."""
    timed = [row for row in rows if row.time_us and row.size_bytes > 0]
    apart = [row for row in timed if not row.in_place]
    return apart or timed


def _check_program(program: str, path: Path) -> None:
    name = program.rpartition("/")[2].removesuffix("_mpi")
    if name.endswith("_perf") and name != ALL_REDUCE:
        raise UsageError(f"{path.name} has rows of {name}", "costs are fitted to all-reduces: all_reduce_perf")


def _ranks_of(rows: list[Row]) -> int:
    """From the factor 2(n-1)/n between both bandwidths, of rows without a list of devices."""
    exact = [row for row in rows if (row.algbw_GBps or 0) > 1]
    factors = [(row.busbw_GBps or 0) / (row.algbw_GBps or 1) for row in exact]
    factor = max(factors, default=0.0)
    return round(2 / (2 - factor)) if 1 < factor < 2 else 0


def _shape(ranks: int, hosts: list[str], gpus: int | None, path: Path) -> tuple[int, int]:
    """(nodes, ranks a node)."""
    nodes = len(set(hosts)) if hosts else ranks // gpus if gpus else 0
    if nodes < 1 or ranks < 1:
        raise UsageError(f"{path.name} does not say how many nodes there were", LIST if gpus else RANKS)
    if ranks % nodes:
        raise UsageError(f"{path.name} has {ranks} ranks on {nodes} nodes", "nodes must have equally many ranks")
    return nodes, ranks // nodes


def _of_table(text: str) -> Iterator[Measured]:
    """NCCL's latencies and bandwidths of an all-reduce, as times of a size without bytes and of one without hops."""
    size = SIZE_OF_JOB.search(text)
    names: list[str] = []
    for line in text.splitlines():
        if "Algorithm" in line and "|" in line:
            names = [name for cell in line.split("|")[1:] for name in cell.split()]
            continue
        if "AllReduce |" not in line or size is None:
            continue
        cells = [CELL.fullmatch(cell) for cell in line.partition("AllReduce |")[2].split("|")]
        for place, name in enumerate(names):
            cell = cells[3 * place + 2] if 3 * place + 2 < len(cells) else None
            if name.lower() in WAYS and cell is not None and float(cell[2]) > 0:
                yield from _pair(size, f"{WAYS[name.lower()]}/{OF_TABLE}", float(cell[1]), float(cell[2]))


def _pair(size: re.Match[str], way: str, latency_us: float, algbw_GBps: float) -> Iterator[Measured]:
    ranks, nodes = int(size[1]), int(size[2])
    yield Measured(nodes, ranks // nodes, LATENCY_BYTES, latency_us, way)
    yield Measured(nodes, ranks // nodes, BAND_BYTES, latency_us + BAND_BYTES / (1000 * algbw_GBps), way)
