"""Programs that are not ours: how all of their processes are found and ended, and what they leave behind is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from chaos.experiment.model import Experiment
from chaos.record.journal import Journal
from chaos.run.plan import Foreign, Plan
from harness.errors import InfraError
from harness.hosts import Host
from harness.hosts.parallel import on_all
from harness.workloads.kinds.program import OUT, RUN, Program
from harness.workloads.reading.steps import LONGEST_RESULT

SWEEP_S = 20.0
TRIES = 5
MOST_LEFT_BYTES = 1 << 26
HEAD = 'head -c "$2" -- "$1"'
"""A fixed script: so many bytes of a file."""
FIND = 'grep -lzx -- "$1" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3'
"""A fixed script: process ids by one variable of their environment, which no fork and no new session gets rid of."""
READ = (
    '[ -f "$1" ] || exit 1; if [ "$(wc -c <"$1")" -le "$2" ]; then cat -- "$1"; '
    'else printf "sha256 "; sha256sum <"$1" | cut -d" " -f1; fi'
)
"""A fixed script: what is in a file, or its digest where that is more than so many bytes."""


def foreign_of(experiment: Experiment, token: str) -> Foreign | None:
    """None for what is ours."""
    workload = experiment.workload
    if not isinstance(workload, Program):
        return None
    return Foreign(token, workload.start_s, workload.digest)


def end_all(foreign: Foreign, hosts: Mapping[str, Host], names: Collection[str]) -> None:
    """Ends what still runs of it on these hosts, and removes its folders; a host that is lost keeps none of the others
    from it. Raises its error when all others are done."""
    outcomes = on_all({name: partial(_end, foreign.token, hosts[name]) for name in names})
    for outcome in outcomes.values():
        if outcome.error is not None:
            raise outcome.error


def _end(token: str, host: Host) -> None:
    for _ in range(TRIES):
        found = host.run(["sh", "-c", FIND, "r2cc", f"{RUN}={token}"], timeout_s=SWEEP_S, check=False).stdout.split()
        if not found:
            break
        host.run(["kill", "-KILL", *found], timeout_s=SWEEP_S, check=False)
    host.run(["rm", "-rf", "--", f"/tmp/r2cc-out-{token}"], timeout_s=SWEEP_S, check=False)


def read_left(plan: Plan, hosts: Mapping[str, Host], rank: int, name: str) -> str | None:
    """A file that a rank has left in its folder; None where there is none."""
    launch = plan.ranks[rank]
    argv = ["sh", "-c", HEAD, "r2cc", f"{launch.env[OUT]}/{name}", f"{MOST_LEFT_BYTES}"]
    got = hosts[launch.host].run(argv, timeout_s=SWEEP_S, check=False)
    return got.stdout if got.exit_code == 0 else None


def read_digests(plan: Plan, hosts: Mapping[str, Host], journal: Journal, *, of: Sequence[int]) -> None:
    """What these ranks, which ended well, left as their result, into the journal. InfraError when all ranks ended well
    and none of them left any."""
    if plan.foreign is None or plan.foreign.digest is None:
        return
    found = 0
    for rank in of:
        launch = plan.ranks[rank]
        path = f"{launch.env[OUT]}/{plan.foreign.digest}"
        words = ["sh", "-c", READ, "r2cc", path, f"{LONGEST_RESULT}"]
        got = hosts[launch.host].run(words, timeout_s=SWEEP_S, check=False)
        if got.exit_code == 0:
            found += 1
            journal.write("result", host=launch.host, rank=rank, result=got.stdout.strip())
    if not found and len(of) == len(plan.ranks):
        raise InfraError(
            f"the program ended well, and no rank left its result in ${OUT}/{plan.foreign.digest}",
            f"write it there: {OUT} is in the environment of each rank",
        )
