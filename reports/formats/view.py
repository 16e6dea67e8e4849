"""Everything a report says, computed once: HTML, Markdown and the terminal only print it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from chaos.analysis.model import Arm, FaultFigures, Run, Summary
from reports.charts import bandwidth as chart_bandwidth
from reports.charts import bytes as chart_bytes
from reports.charts import failover as chart_failover
from reports.charts import gpus as chart_gpus
from reports.charts import heat as chart_heat
from reports.charts import history as chart_history
from reports.charts import iterations as chart_iterations
from reports.charts import sizes as chart_sizes
from reports.charts import stalls as chart_stalls
from reports.charts import waits as chart_waits
from reports.charts.frame import Figure
from reports.reading import nic_rates
from reports.reading.rundir import RunDir
from reports.reading.trace import NicId, Trace
from reports.store.names import id_of
from reports.words import bytes_table, cells, events, names, sentence, tables
from reports.words.units import NONE, memory, ms

Tables = dict[str, list[bytes_table.BytesRow]]


@dataclass(frozen=True)
class View:
    """The report in words and tables, without its figures."""

    name: str
    title: str
    verdict: str
    headline: str
    remarks: list[str]
    notes: list[str]
    tiles: list[cells.Tile]
    arms: list[str]
    side_by_side: list[cells.Row]
    checks: list[cells.Row]
    facts: list[tuple[str, str]]


def build(run: RunDir) -> View:
    """The words and tables of a run's report."""
    arms = run.summary.arms
    return View(
        name=run.name,
        title=str(run.experiment.get("title") or run.experiment.get("description") or "").strip(),
        verdict=run.summary.verdict,
        headline=sentence.headline(run.summary),
        remarks=_remarks(run.summary),
        notes=run.notes,
        tiles=_tiles(arms),
        arms=[arm.name for arm in arms],
        side_by_side=tables.side_by_side(arms) if arms else [],
        checks=tables.checks(arms) if arms else [],
        facts=_facts(run),
    )


def complete(summary: Summary) -> Summary:
    """Without the runs that were cut short, where an arm has others."""
    return replace(summary, arms=[replace(arm, runs=list(cells.whole(arm))) for arm in summary.arms])


def shown_traces(run: RunDir) -> list[Trace]:
    """The repeat of each arm that figures show: of those that count the one with the longest stall, so that nothing is
    hidden."""
    arms = {a.name: a for a in complete(run.summary).arms}
    shown = []
    for name in run.arm_names():
        traces = run.traces_of(name)
        if traces:
            wanted = _shown_run(arms.get(name))
            shown.append(next((t for t in traces if t.run == wanted), traces[0]))
    return shown


def figures(run: RunDir, traces: Sequence[Trace], moved: Tables) -> list[Figure]:
    """Every figure of the page, in reading order; those of moments need a journal. `moved`: `bytes_tables` of it."""
    allowed_ms = stall_limit_ms(run.summary)
    made = [
        *(_of_moments(run, traces, allowed_ms) if traces else []),
        chart_stalls.figure(complete(run.summary), allowed_ms),
        chart_sizes.figure(complete(run.summary)),
        *(_of_nics(run, traces, moved) if traces else []),
        chart_history.figure(run.path, run.summary),
    ]
    return [figure for figure in made if figure is not None]


def _of_moments(run: RunDir, traces: Sequence[Trace], allowed_ms: float | None) -> list[Figure | None]:
    faults = {t.arm: _faults_of(run.summary, t) for t in traces}
    return [
        chart_bandwidth.figure(traces, run.faulted(), _rates(run, traces)),
        chart_gpus.figure(traces),
        chart_iterations.figure(traces, faults),
        chart_waits.figure(traces, faults, allowed_ms),
        chart_failover.figure(traces),
    ]


def _rates(run: RunDir, traces: Sequence[Trace]) -> dict[NicId, float]:
    return nic_rates.rates_gbit(traces, run.experiment, str(run.summary.bed))


def _of_nics(run: RunDir, traces: Sequence[Trace], moved: Tables) -> list[Figure | None]:
    return [chart_heat.figure(traces, moved), chart_bytes.figure(traces, moved, run.faulted())]


def stall_limit_ms(summary: Summary) -> float | None:
    """The stall that the experiment allows, from its checks."""
    found = [c for a in summary.arms for r in a.runs for c in r.checks]
    bounds = [c.bound for c in found if "stall" in c.name and c.bound and c.unit == "ms"]
    return min(bounds, default=None)


def bytes_tables(run: RunDir, traces: Sequence[Trace]) -> Tables:
    """The bytes table of each arm's shown repeat, by arm."""
    known = {trace.arm: _run_of(run.summary, trace) for trace in traces}
    return {
        trace.arm: bytes_table.rows(trace, run.faulted(), run_of.bytes_per_nic if (run_of := known[trace.arm]) else {})
        for trace in traces
    }


def event_rows(trace: Trace) -> tuple[list[events.EventRow], int]:
    """The events table of one arm's shown repeat."""
    return events.rows(trace)


def environment(run: RunDir) -> list[tuple[str, str]]:
    """environment.json flattened to names and values, as `cpu.model`."""
    return _flatten(run.environment)


def _flatten(value: object, prefix: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [
            pair for key, inner in value.items() for pair in _flatten(inner, f"{prefix}.{key}" if prefix else str(key))
        ]
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return [pair for i, inner in enumerate(value) for pair in _flatten(inner, f"{prefix}[{i}]")]
    return [(prefix, ", ".join(map(str, value)) if isinstance(value, list) else str(value))]


def _remarks(summary: Summary) -> list[str]:
    """Why it is not simply `holds`; that each figure of a void run is void need not be said one by one."""
    reasons = list(dict.fromkeys(summary.reasons))
    return [why for why in reasons if not why.endswith(": void")] or reasons


def _tiles(arms: Sequence[Arm]) -> list[cells.Tile]:
    if not arms:
        return []
    tiles = []
    ours, stock = sentence.best_arm(arms), next((a for a in arms if a.name == "stock"), None)
    for arm, kind in ((ours, "ours"), (stock, "base")):
        if arm is not None and (stall := sentence.worst_stall_ms(arm)) is not None:
            void = "" if all(map(sentence.is_valid, cells.counted(arm))) else "void, "
            tiles.append(cells.Tile(ms(stall), f"{void}stall with {names.arm(arm.name)}", kind))
    wrong = sum(r.wrong_elements for a in arms for r in a.runs)
    done = sum(r.iterations for a in arms for r in cells.whole(a))
    none = not wrong and not any(cells.ran(a.runs) for a in arms)
    return [
        *tiles,
        cells.Tile(
            NONE if none else str(wrong), "wrong elements in all results", "" if none else "bad" if wrong else "good"
        ),
        cells.Tile(str(done), "iterations completed"),
    ]


def _facts(run: RunDir) -> list[tuple[str, str]]:
    summary = run.summary
    its = summary.hardware
    cores = f"{its.cores} cores, {memory(its.memory_bytes)} memory, {its.cpu}"
    pairs = [
        ("Experiment", run.name),
        ("Testbed", summary.bed),
        ("Machine", cores),
        ("Build", summary.build_id),
        *([("NCCL", nccl)] if (nccl := _nccl(run)) else []),
        ("Seed", summary.seed),
        ("Run", id_of(run.path.resolve().name)),
    ]
    return [(name, NONE if value is None else str(value)) for name, value in pairs]


def _nccl(run: RunDir) -> str | None:
    """The version that the ranks ran, where environment.json says so."""
    build = run.environment.get("build")
    found = build.get("nccl") if isinstance(build, dict) else None
    return None if found is None else str(found)


def _shown_run(arm: Arm | None) -> int | None:
    runs = cells.counted(arm) if arm else []
    stalls = {r.run: sentence.worst(f.stall_ms for f in r.faults) or 0.0 for r in runs}
    return max(stalls, key=lambda run: stalls[run], default=None)


def _run_of(summary: Summary, trace: Trace) -> Run | None:
    for arm in summary.arms:
        if arm.name == trace.arm:
            return next((r for r in arm.runs if r.run == trace.run), None)
    return None


def _faults_of(summary: Summary, trace: Trace) -> list[FaultFigures]:
    run = _run_of(summary, trace)
    return list(run.faults) if run else []
