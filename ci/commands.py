"""`r2cc ci`: baselines and the regression gate. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.options import FilePath, OutFile, arms_option, json_option, quiet_option
from harness.files.writing import write_whole
from harness.schemas import dumped
from harness.units import nth
from reports.commands.runs import store_option

if TYPE_CHECKING:
    from ci.gate import Judgement
    from ci.policy import Policy
    from reports.store.store import Store

baseline_option = click.option("--baseline", default="main", help="The name of the baseline.")
policy_option = click.option(
    "--policy",
    required=True,
    type=FilePath(dir_okay=False),
    help="Which series are judged (docs/howto/ci.md).",
)


@click.group()
def ci() -> None:
    """Record baselines, and judge whether a change made something worse.

    \b
    Examples:
      r2cc ci baseline record 20261125T0339 --baseline main
      r2cc ci gate --policy ci.yaml --baseline main 20261126T0401 --out gate.json
      r2cc ci gate --policy ci.yaml --history
      r2cc ci turns experiments/ci/pull_request.yaml --before ../main --after . --policy ci.yaml
      r2cc ci report gate.json --format junit
    """


@ci.group()
def baseline() -> None:
    """Which runs others are measured against. They carry the tag baseline/NAME, so that they are never pruned.

    \b
    Examples:
      r2cc ci baseline record 20261125T0339
      r2cc ci baseline show --baseline main
    """


@baseline.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@baseline_option
@click.option("--replace", is_flag=True, help="Replace the runs that are recorded for the same hardware.")
@store_option
@json_option()
@quiet_option(given=False)
def record(runs: tuple[str, ...], *, baseline: str, replace: bool, store: Path, as_json: bool) -> None:
    """Make RUNs part of a baseline.

    \b
    Examples:
      r2cc ci baseline record 20261125T0339 20261125T0401
      r2cc ci baseline record runs/20261125T0339* --baseline h100 --replace
    """
    from ci import baselines
    from reports.store.store import opened

    with opened(store) as found:
        chosen = [found.find(name) for name in runs]
        baselines.check_fit(chosen)
        baselines.record(found, chosen, baseline, replace=replace)
    if as_json:
        click.echo(dumped(baselines.Recorded(baseline, [run.id for run in chosen])))
    for run in () if as_json else chosen:
        click.echo(f"{run.id}: {baselines.TAG}{baseline}")


@baseline.command()
@baseline_option
@store_option
@json_option()
@quiet_option(given=False)
def show(baseline: str, store: Path, as_json: bool) -> None:
    """List the runs of a baseline, with their hardware and build.

    \b
    Examples:
      r2cc ci baseline show
      r2cc ci baseline show --baseline h100 --json
    """
    from ci import baselines
    from reports.store.store import opened

    with opened(store) as found:
        runs = baselines.runs_of(found, baseline)
    if as_json:
        click.echo(dumped(baselines.Baseline(baseline, [run.shown() for run in runs])))
        return
    for run in runs:
        click.echo(f"{run.id}  {run.bed}  {run.fingerprint or 'unknown hardware'}  build {run.build_id or 'unknown'}")


@ci.command()
@click.argument("runs", nargs=-1, metavar="RUN...")
@policy_option
@baseline_option
@click.option("--history", "of_history", is_flag=True, help="Look for lasting changes in all stored runs instead.")
@click.option("--out", type=OutFile(), help="Write the judgement there, as JSON.")
@store_option
@json_option("Print the judgement as JSON.")
@quiet_option(given=False)
def gate(
    runs: tuple[str, ...],
    policy: Path,
    *,
    baseline: str,
    of_history: bool,
    out: Path | None,
    store: Path,
    as_json: bool,
) -> int:
    """Judge RUNs of a change against a baseline of the same hardware. Where `main` has none they become it; any other
    baseline must have been recorded.

    Runs of both must have been made by turns (A B A B): what the machine does meanwhile must hit both.

    \b
    Examples:
      r2cc ci gate --policy ci.yaml 20261126T0401
      r2cc ci gate --policy ci.yaml --history --json
    \b
    Exit codes: 0 nothing worse was shown, or recorded; 1 something got worse; 2 bad usage; 3 it cannot be judged.
    """
    from ci.policy import load
    from harness.errors import UsageError
    from reports.store.store import opened

    rules = load(policy)
    if of_history is bool(runs):
        raise UsageError("name the runs of the change, or --history", "r2cc ci gate --help")
    with opened(store) as found:
        judged = _history(found, rules) if of_history else _against(found, rules, runs, baseline)
    return _say(judged, out, as_json=as_json)


def _say(judged: Judgement, out: Path | None, *, as_json: bool) -> int:
    text = dumped(judged, 1) + "\n"
    if out is not None:
        write_whole(out, text)
    if as_json:
        click.echo(text, nl=False)
    else:
        click.echo(f"{judged.outcome}{': ' if judged.reasons else ''}{'; '.join(judged.reasons)}")
        for line in judged.series:
            click.echo(f"  {line.text}")
    return judged.exit_code


@ci.command()
@click.argument("experiment", type=FilePath(exists=True, dir_okay=False))
@click.option("--before", required=True, type=FilePath(exists=True), help="The checkout without the change.")
@click.option("--after", required=True, type=FilePath(exists=True), help="The checkout with the change.")
@click.option(
    "--times", type=click.IntRange(1, 1000), default=12, envvar="R2CC_CI_TIMES", show_envvar=True,
    help="How many runs of each checkout.",
)  # fmt: skip
@arms_option()
@policy_option
@click.option("--out", type=OutFile(), help="Write the judgement there, as JSON.")
@store_option
@json_option("Print the judgement as JSON.")
@quiet_option()
def turns(
    experiment: Path, *, before: Path, after: Path, times: int, arms: str | None, policy: Path, out: Path | None,
    store: Path, as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Run EXPERIMENT with two checkouts by turns, and judge the second against the first.

    \b
    Examples:
      r2cc ci turns experiments/ci/pull_request.yaml --before ../main --after . --arms migrate --policy ci.yaml
      r2cc ci turns experiments/ci/pull_request.yaml --before ../main --after . --times 20 --policy ci.yaml
    """
    from ci import gate as judging
    from ci import turns as work
    from ci.policy import load
    from reports.store.store import opened

    rules = load(policy)
    work.check(rules, experiment, arms)
    more = ("--arms", arms) if arms else ()
    plan = work.turns((before.resolve(), after.resolve()), experiment.resolve(), store.resolve(), times, more)
    store.mkdir(parents=True, exist_ok=True)

    def told(turn: work.Turn, name: str) -> None:
        if not quiet:
            click.echo(f"{turn.side:<6} {nth('turn', turn.number, times)}  {name}", err=True)

    made = work.run_all(plan, told)
    with opened(store) as found:
        sides = [[found.find(name) for name in made[side]] for side in (work.BEFORE, work.AFTER)]
    return _say(judging.against(rules, *sides), out, as_json=as_json)


@ci.command()
@click.argument("file", type=FilePath(exists=True, dir_okay=False))
@click.option("--format", "kind", type=click.Choice(["md", "junit"]), default="md", help="What to write.")
def report(file: Path, kind: str) -> None:
    """Render what `gate --out FILE` wrote: Markdown for a pull request, JUnit for a CI server.

    \b
    Examples:
      r2cc ci report gate.json
      r2cc ci report gate.json --format junit > gate.xml
    """
    from ci import render
    from ci.gate import Judgement
    from harness.config import jsons
    from harness.config.files import input_of
    from harness.errors import UsageError
    from harness.schemas import problems

    try:
        judged = jsons.value_of(input_of(file, "the judgement", "r2cc ci gate --out makes such a file"))
    except ValueError as error:
        raise UsageError(f"{file} cannot be read: {error}", "r2cc ci gate --out makes such a file") from error
    wrong = problems("ci_gate", judged)
    if wrong:
        raise UsageError(f"{file} is no judgement: {wrong[0]}", "r2cc ci gate --out makes such a file")
    judged = Judgement.of(judged)
    click.echo(render.markdown(judged) if kind == "md" else render.junit(judged), nl=False)


def _against(store: Store, rules: Policy, names: tuple[str, ...], baseline: str) -> Judgement:
    from ci import baselines
    from ci import gate as judging

    after = [store.find(name) for name in names]
    judging.check_runs(rules, after)
    known = {(run.fingerprint, run.bed) for run in after}
    every = baselines.runs_of(store, baseline, may_begin=baseline == baselines.USUAL)
    same = [store.find(run.id) for run in every if (run.fingerprint, run.bed) in known]
    before = [run for run in same if run.id not in {each.id for each in after}]
    if before:
        return judging.against(rules, before, after)
    if same:
        already = f"baseline {baseline} has no other run of this hardware than {same[0].id}, which is to be judged"
        return judging.Judgement(judging.RECORDED, (f"{already}: it stays recorded",))
    useless = baselines.useless(after)
    if useless:
        return judging.Judgement(judging.NOT_JUDGED, (f"no baseline, and {useless[0]} cannot become one",))
    baselines.record(store, after, baseline, replace=False)
    return judging.Judgement(judging.RECORDED, (f"baseline {baseline} had no run of this hardware; these are it now",))


def _history(store: Store, rules: Policy) -> Judgement:
    """Of the hardware that ran last: histories of different hardware are different histories."""
    from ci import gate as judging
    from reports.store.entry import Entry

    ours = [run for run in store.runs() if run.experiment in rules.experiments]
    runs = [run for run in ours if run.verdict in ("holds", "deviated")]
    same = [run for run in reversed(runs) if (run.fingerprint, run.bed) == (runs[0].fingerprint, runs[0].bed)]
    figures = store.figures(run.id for run in same)
    judged = judging.history(rules, [Entry(**{**run.__dict__, "figures": tuple(figures[run.id])}) for run in same])
    void = sum(run.verdict == "void" for run in ours)
    if judged.outcome == judging.NOT_JUDGED and void and not runs:
        what = "1 run is recorded, and it is" if void == 1 else f"{void} runs are recorded, and all are"
        why = f"{what} void: the machine was too busy"
        return judging.Judgement(judging.RECORDED, (why,), judged.series)
    return judged
