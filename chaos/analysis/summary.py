"""summary.json from the journal alone: the figures of every run, the verdicts on them, and what they come to. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite

from chaos.analysis import verdict
from chaos.analysis.figures import run_figures
from chaos.analysis.model import FAILED, Arm, Check, Metric, Run, Summary
from chaos.analysis.rundata import read_run
from chaos.experiment.model import MODES, Experiment
from chaos.record.journal import OUTSIDE, Line
from harness.facts.environment import Hardware


def summarize(
    lines: Iterable[Line],
    experiment: Experiment,
    arms: Iterable[str],
    *,
    bed: str,
    hardware: Hardware,
    build_id: str | None,
    void_ok: bool = False,
    failure: str | None = None,
    interrupted: bool = False,
) -> Summary:
    """The whole of it. `failure` is what stopped the experiment before its end, if anything did."""
    runs = grouped(lines)
    entries = {
        name: [run_entry(data, run, experiment, name) for run, data in sorted(runs.get(name, {}).items())]
        for name in arms
    }
    whole = [arm_entry(name, entries, experiment) for name in entries]
    word, code = verdict.overall(whole, void_ok=void_ok)
    why = ([failure] if failure else []) + verdict.reasons(whole)
    return Summary(
        verdict=word if failure is None else FAILED,
        exit_code=code if failure is None else 130 if interrupted else 3,
        experiment=experiment.name,
        bed=bed,
        hardware=hardware,
        build_id=build_id,
        seed=experiment.seed,
        reasons=list(dict.fromkeys(why)),
        arms=whole,
    )


def grouped(lines: Iterable[Line]) -> dict[str, dict[int, list[Line]]]:
    """Lines by arm and repeat. Of the samples, which are nearly all of a long run, the counters that each NIC began and
    ended with are kept, as one line each of its host."""
    found: dict[str, dict[int, list[Line]]] = defaultdict(lambda: defaultdict(list))
    ends: dict[tuple[str, int, str], tuple[Line, Line]] = {}
    for line in lines:
        if line["arm"] == OUTSIDE:
            continue
        run = found[line["arm"]][line["run"]]
        if line["event"] != "sample":
            run.append(line)
            continue
        key = (line["arm"], line["run"], line["host"])
        if key not in ends:
            ends[key] = ({**line, "nics": {}}, {**line, "nics": {}})
            run += ends[key]
        ends[key][1]["t_ns"] = line["t_ns"]
        first, last = (end["nics"] for end in ends[key])
        for nic, counters in line["nics"].items():
            first.setdefault(nic, counters)
            last[nic] = counters
    return {arm: dict(runs) for arm, runs in found.items()}


def run_entry(lines: list[Line], run: int, experiment: Experiment, arm: str) -> Run:
    """One `runs[]` entry."""
    figures = run_figures(read_run(lines), MODES[arm], iterations=experiment.workload.measured)
    blind = without_loss(lines)
    said = {} if blind else results_of(lines)
    figures = replace(figures, results=said)
    checks = verdict.run_checks(figures, experiment.hypothesis_of(arm), MODES[arm])
    why = failure_of(lines, figures, {fault.id for fault in experiment.faults if fault.may_miss})
    errors = list(dict.fromkeys([*([why] if why else []), *figures.errors]))
    if blind:
        errors.append("the loss was never a number: results say nothing, and are not compared")
    judged = verdict.run_verdict(checks, why)
    return replace(figures, run=run, checks=checks, errors=errors, verdict=judged, cut=was_cut(lines) or None)


def results_of(lines: list[Line]) -> dict[str, str]:
    """What each iteration of each rank came to, and all of them, where the workload says so: `rank/index`, `rank/end`
    and `rank/digest` -> text."""
    ends = {"bench_end": "end", "result": "digest"}
    said = [line for line in lines if line["event"] in ("iteration", *ends) and "result" in line]
    return {f"{line['rank']}/{ends.get(line['event'], line.get('index'))}": line["result"] for line in said}


def without_loss(lines: list[Line]) -> bool:
    """Whether ranks say a loss, and none ever one that is a number. What such a training computes is alike whatever
    happened: each bit is that of "not a number". (Single steps are skipped by training in 16 bits.)"""
    losses = [line["loss"] for line in lines if line["event"] == "iteration" and "loss" in line]
    return bool(losses) and not any(loss is not None and isfinite(loss) for loss in losses)


def was_cut(lines: list[Line]) -> bool:
    """Whether Ctrl-C or a kill of the controller ended the run."""
    return not any(line["event"] == "run_end" and line["outcome"] != "interrupted" for line in lines)


def failure_of(lines: list[Line], figures: Run, may_miss: Collection[str] = ()) -> str | None:
    """Why the run does not count at all: it did not end, the infrastructure failed, or a fault hit no iteration."""
    end = next((line for line in lines if line["event"] == "run_end"), None)
    if end is None:
        return "the journal stops before the run ended"
    if end["outcome"] != "finished":
        return str(end.get("reason") or end["outcome"])
    missed = [fault.id for fault in figures.faults if not fault.hit and fault.id not in may_miss]
    return f"the fault {', '.join(missed)} missed: no collective was in flight when it struck" if missed else None


def arm_entry(name: str, runs: Mapping[str, Sequence[Run]], experiment: Experiment) -> Arm:
    """One `arms[]` entry."""
    hypothesis, own = experiment.hypothesis_of(name), runs[name]
    metrics: list[Metric] = []
    checks: list[Check] = []
    ended = [run for run in own if not run.cut]
    stock = [run for run in runs.get(verdict.BASELINE, ()) if not run.cut]
    if name != verdict.BASELINE and stock and (ended or not own):
        metrics, checks = verdict.compare_with_stock(ended, stock, hypothesis, experiment.repeats)
    checks = verdict.median_checks(ended, hypothesis, MODES[name], experiment.repeats) + checks
    expect = next(a.expect for n, a in experiment.arms.items() if n == name)
    judged = verdict.arm_verdict(own, checks)
    arm = Arm(name, MODES[name], expect, judged, None, list(own), metrics, checks)
    return replace(arm, as_expected=verdict.as_expected(arm, hypothesis))
