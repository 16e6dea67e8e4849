"""How the ranks of a run ended: what says something about the arm, and what does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chaos.record.journal import Journal
from chaos.run.lines import Lines
from chaos.run.plan import Plan
from chaos.run.ranks import Ranks
from chaos.testbed.beds import Bed
from harness.errors import InfraError, LabError, R2ccError
from harness.hosts.commands import indent
from harness.launch.launchers.registry import launchers
from harness.launch.processes import Started
from harness.launch.run import how_it_ended

MACHINE_S = 10.0
OURS = "R2CC: "
QUOTED_LINES = 1000
OTHER_WORDS_HINT = (
    "progress.step must match a line that it prints for each step (docs/howto/own-job.md); "
    "start_s says how long it may take until the first one"
)
SILENT_HINT = "let it print a line for each step, and flush it; without progress, the whole program is one step"
HUNG_HINT = (
    "do its ranks meet? They find each other by MASTER_ADDR and MASTER_PORT. If it only takes long, say start_s; "
    "if it never prints, progress: {collectives: N} (docs/howto/own-job.md)"
)
EXIT_WRONG, EXIT_TRANSPORT = 1, 3


def quote(ranks: Sequence[Started], journal: Journal) -> None:
    """What the net library said for operators, which its callers' error codes do not say."""
    for each in ranks:
        text = each.errors(QUOTED_LINES)
        for line in dict.fromkeys(line for line in text.splitlines() if OURS in line):
            message = OURS + line.partition(OURS)[2]
            journal.write("log", host=each.start.host.name, message=message[:1000])


def died(each: Started, plan: Plan) -> bool:
    """One that has ended as no rank ends by itself when all is exact, or not."""
    return each.eof and each.reap() not in ((None, 0) if plan.foreign else (None, 0, EXIT_WRONG))


def judge(
    ranks: Sequence[Started], plan: Plan, bed: Bed, raw: Path, *, struck: bool, hung: bool, first_dead: Started | None
) -> None:
    """InfraError, or LabError, for an end that says nothing about the arm. `struck`: a fault did."""
    for each in ranks if plan.foreign is None else ():
        if not each.stopped and _code(each, plan) not in (0, EXIT_WRONG, EXIT_TRANSPORT):
            _check_machine(each, bed)
            raise _death(each)
    if struck:
        return
    if hung:
        raise InfraError("the workload hung before any fault struck", f"see {raw}")
    if first_dead is not None:
        raise _death(first_dead)


def judge_foreign(ranks: Ranks, lines: Lines, start_s: float, *, struck: bool, hung: bool, spoke: bool) -> None:
    """The same of a program that is not ours: whatever it ends with after a fault says something about the arm."""
    left = ranks.left_behind
    if left is not None:
        raise InfraError(
            f"{named(left)} ended, and something that it had started ran on: it was ended, too",
            "start the program in the foreground",
        )
    if not struck:
        for each in ranks.running:
            if each.code != 0 and not each.stopped:
                raise _death(each, lines.quoted(each))
    if not spoke and (hung or all(each.code == 0 for each in ranks.running)):
        printed = next(filter(None, map(lines.quoted, ranks.running)), "")  # all ranks say much the same
        last = f"; its last lines:\n{indent(printed)}" if printed else ", and it printed nothing"
        how = f" in {start_s:.0f} s" if hung else ""
        hint = OTHER_WORDS_HINT if printed else HUNG_HINT if hung else SILENT_HINT
        raise InfraError(f"no step of the program was seen{how}{last}", hint)


def named(each: Started) -> str:
    return f"{each.start.shown} on {each.start.host.name}"


def _code(each: Started, plan: Plan) -> int | None:
    """Of the first rank that ended badly, where a launcher says so: its own means less."""
    if plan.job is None or not each.code:
        return each.code
    death = launchers()[plan.launcher].first_death(each.errors(QUOTED_LINES))
    return each.code if death is None or death.code is None else death.code


def _check_machine(each: Started, bed: Bed) -> None:
    """A guest whose kernel died took its rank with it: LabError, for that says nothing about the rank."""
    if not bed.machines:
        return
    try:
        each.start.host.run(["true"], timeout_s=MACHINE_S)
    except R2ccError as error:
        raise LabError(
            f"{each.start.host.name} died under {each.start.shown}: {error.message}",
            "its last words are in .cache/vm/logs; run again",
        ) from error


def _death(each: Started, printed: str = "") -> InfraError:
    last = "".join(f"\n{line}" for line in indent(printed or each.errors(3)).splitlines())
    file = each.start.stderr
    if printed and file is not None and each.start.rank is not None:  # both streams of a program that is not ours
        file = file.with_suffix(".out")
    return InfraError(f"{named(each)} {how_it_ended(each.code)}{last}", f"see {file}")
