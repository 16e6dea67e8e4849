"""All hosts' part of a deploy: look at all of them first, then put the build on each, side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

from harness.deploy import needs, remote
from harness.deploy.build import Build, needed
from harness.deploy.facts import OWN_PREFIX, HostFacts, too_full, unfit
from harness.errors import InfraError, InputErrors
from harness.files.scratch import scratch
from harness.hosts.base import Host
from harness.hosts.parallel import Outcome, all_of, on_all
from harness.schemas.form import Count, form, left_out


@dataclass(frozen=True)
class Planned:
    """What a host is, the build that it gets, and which of its objects it lacks."""

    facts: HostFacts
    build: Build
    missing: tuple[str, ...]

    def shown(self) -> PlannedHost:
        size = sum(self.build.objects[digest].size for digest in self.missing)
        return PlannedHost(self.facts.prefix, self.facts.current, len(self.missing), size)


@dataclass(frozen=True)
class Done:
    """What happened on one host; `was` and `now` are builds' names."""

    was: str
    now: str
    sent_files: Count = 0
    sent_bytes: Count = 0
    removed: tuple[str, ...] = ()
    shared_with: str = ""
    error: None = None


@dataclass(frozen=True)
class Failed:
    error: str


@form("deploy", "r2cc deploy, r2cc deploy --rollback")
@dataclass(frozen=True, kw_only=True)
class Deploy:
    """What a deploy came to."""

    build: str | None = left_out()
    seconds: float | None = left_out()
    rollback: Literal[True] | None = left_out()
    failed: Count
    hosts: Mapping[str, Done | Failed]


@dataclass(frozen=True)
class PlannedHost:
    prefix: str
    current: str | None
    files: Count
    bytes: Count


@form("deploy_plan", "r2cc deploy --dry-run")
@dataclass(frozen=True)
class DeployPlan:
    """What a deploy would do."""

    build: str
    dry_run: Literal[True]
    hosts: Mapping[str, PlannedHost]


@dataclass(frozen=True)
class Listed:
    """What lies on a host. `builds`: (name, when it was used last in s since 1970, KiB)."""

    prefix: str
    current: str
    previous: str
    owner: str
    builds: tuple[tuple[str, int, Count], ...]


@form("deploy_list", "r2cc deploy --list")
@dataclass(frozen=True)
class DeployList:
    """What lies on every host."""

    hosts: Mapping[str, Listed | Failed]


Value = TypeVar("Value")
Told = Callable[[str, str], None]
"""(host, what it is about now), from that host's own thread."""
Results = dict[str, Outcome[Done]]


def plan(
    hosts: Mapping[str, Host], prefixes: Mapping[str, str], build_for: Callable[[str], Build]
) -> dict[str, Planned]:
    """Asks all hosts; changes nothing. `build_for`: the build for a kind of CPU, in `uname -m`'s words.

    InfraError naming all that do not answer, InputErrors with every reason why a host cannot have its build.
    """
    work = {name: partial(_plan, host, prefixes[name], build_for) for name, host in hosts.items()}
    found = all_of(work, "nothing was changed; r2cc hosts check")
    what = {build.name: needs.of(build) for build in builds(found)}
    wrong = [reason for name, planned in found.items() for reason in _wrong(name, planned, what[planned.build.name])]
    if wrong:
        raise InputErrors([*wrong, "nothing was copied to any host"])
    return found


def builds(planned: Mapping[str, Planned]) -> list[Build]:
    """All that some host gets, each once."""
    return [*{each.build.name: each.build for each in planned.values()}.values()]


def _plan(host: Host, prefix: str, build_for: Callable[[str], Build]) -> Planned:
    facts = remote.facts(host, prefix)
    build = build_for(facts.machine)
    there = remote.whole_objects(host, facts.prefix, build) if not facts.missing else set()
    return Planned(facts, build, tuple(digest for digest in build.objects if digest not in there))


def _wrong(name: str, planned: Planned, what: needs.Needs) -> Iterator[str]:
    yield from unfit(name, planned.facts, what)
    yield from too_full(name, planned.facts, needed([planned.build.objects[digest] for digest in planned.missing]))


def deploy(hosts: Mapping[str, Host], planned: Mapping[str, Planned], owner: str, *, keep: int, told: Told) -> Results:
    """Puts its build on every host: locks all, sends to all, then switches those that have it whole. A host on which it
    fails keeps what it had, the others are finished.

    Raises InfraError, before anything is changed anywhere, when another controller is at work on one of them, and
    InputErrors when hosts that need two builds share one folder.
    """
    token = remote.new_token()
    prefixes = {name: planned[name].facts.prefix for name in hosts}
    with (
        scratch("r2cc-deploy-") as folder,
        _all_locked(hosts, prefixes, owner, token) as locks,
    ):
        if wrong := _sharing_in_vain(planned, locks):
            raise InputErrors([*wrong, "nothing was copied to any host"])
        run = _Run(remote.Objects(folder), token, keep, told)
        work = {name: partial(run.send, hosts[name], planned[name], lock.value) for name, lock in _good(locks).items()}
        sent = _shared(on_all(work), locks)
        done = on_all(
            {
                name: partial(run.switch, hosts[name], planned[name], locks[name].value or "", bytes_.value or 0)
                for name, bytes_ in _good(sent).items()
            }
        )
        return {name: _first(name, locks, sent, done) for name in hosts}


def _sharing_in_vain(planned: Mapping[str, Planned], locks: Mapping[str, Outcome[str]]) -> list[str]:
    """A line for each folder of hosts that need two builds: only one of them can be current."""
    of: dict[str, list[str]] = {}
    for name, lock in _good(locks).items():
        of.setdefault(lock.value or name, []).append(name)
    return [
        f"{planned[first].facts.prefix} is one folder on hosts of two kinds of CPU: "
        f"{', '.join(f'{name} ({planned[name].facts.machine})' for name in names)}; {OWN_PREFIX}"
        for first, names in of.items()
        if len({planned[name].build.name for name in names}) > 1
    ]


@contextmanager
def _all_locked(
    hosts: Mapping[str, Host], prefixes: Mapping[str, str], owner: str, token: str
) -> Iterator[dict[str, Outcome[str]]]:
    """Of each host the name of the one whose folder it shares, or ""; one that could not be locked has its error."""
    held: dict[str, AbstractContextManager[str]] = {}

    def lock(name: str) -> str:
        manager = remote.locked(hosts[name], prefixes[name], token, owner)
        shared = manager.__enter__()
        held[name] = manager
        return shared

    def release(name: str) -> None:
        held[name].__exit__(None, None, None)

    try:
        outcomes = on_all({name: partial(lock, name) for name in hosts})
        taken = [outcome.error.message for outcome in outcomes.values() if isinstance(outcome.error, remote.Held)]
        if taken:
            raise InfraError("\n".join(taken), "wait until it has ended; nothing was changed on any host")
        yield outcomes
    finally:
        on_all({name: partial(release, name) for name in list(held)})


def results(outcomes: Mapping[str, Outcome[Value]]) -> dict[str, Value | Failed]:
    """Of each host what came of it, or its error."""
    found: dict[str, Value | Failed] = {}
    for name, each in outcomes.items():
        found[name] = each.value or Failed(each.error.message if each.error else "")
    return found


def _good(outcomes: Mapping[str, Outcome[Value]]) -> dict[str, Outcome[Value]]:
    return {name: outcome for name, outcome in outcomes.items() if outcome.error is None}


def _shared(done: Mapping[str, Outcome[Value]], locks: Mapping[str, Outcome[str]]) -> dict[str, Outcome[Value]]:
    """`done`, where a host has the error of the one whose folder it shares: what failed there failed for it, too."""
    found = dict(done)
    for name, lock in _good(locks).items():
        if (first := done.get(lock.value or "")) and first.error:
            found[name] = replace(done[name], value=None, error=first.error)
    return found


def _first(name: str, *steps: Mapping[str, Outcome[Any]]) -> Outcome[Done]:
    """The last step that a host came to, with the time of all."""
    found = [step[name] for step in steps if name in step]
    return Outcome(name, found[-1].value, found[-1].error, sum(each.elapsed_s for each in found))


@dataclass(frozen=True)
class _Run:
    objects: remote.Objects
    token: str
    keep: int
    told: Told

    def send(self, host: Host, planned: Planned, shared: str | None) -> int:
        """What the host lacks; bytes on the wire. A host that shares a folder waits for the other one."""
        if shared:
            return 0
        files = [planned.build.objects[digest] for digest in planned.missing]
        total, sent, wire = sum(file.size for file in files), 0, 0
        for file in files:
            self.told(host.name, f"sending {sent >> 20} of {total >> 20} MiB")
            packed, how = self.objects.packed(file, can_gzip=planned.facts.gzip)
            wire += remote.send(host, planned.facts.prefix, file, packed, how)
            sent += file.size
        self.told(host.name, "waiting for the others")
        return wire

    def switch(self, host: Host, planned: Planned, shared: str, sent: int) -> Done:
        prefix, build = planned.facts.prefix, planned.build
        if shared:
            self.told(host.name, f"waiting for {shared}, which has the same folder")
            remote.follow(host, prefix, build)
            return Done(planned.facts.current, build.name, shared_with=shared)
        self.told(host.name, "verifying")
        was = remote.install(host, prefix, build, self.token)
        removed = remote.prune(host, prefix, self.keep, self.token)
        return Done(was, build.name, len(planned.missing), sent, tuple(removed))


def rollback(hosts: Mapping[str, Host], prefixes: Mapping[str, str], owner: str) -> Results:
    """Every host back to what it had before; where there is nothing before, that host's error says so."""
    token = remote.new_token()
    facts = on_all({name: partial(remote.facts, host, prefixes[name]) for name, host in hosts.items()})
    known = {name: found.value for name, found in facts.items() if found.value is not None}
    there = {name: hosts[name] for name in known}
    with _all_locked(there, {name: each.prefix for name, each in known.items()}, owner, token) as locks:
        work = {
            name: partial(_rollback, hosts[name], known[name], token, lock.value or "")
            for name, lock in _good(locks).items()
        }
        done = on_all(work)
        return {name: _first(name, facts, locks, _shared(done, locks)) for name in hosts}


def _rollback(host: Host, facts: HostFacts, token: str, shared: str) -> Done:
    if shared:
        return Done(facts.current, facts.previous, shared_with=shared)
    was, now = remote.rollback(host, facts.prefix, token)
    return Done(was, now)


def listed(hosts: Mapping[str, Host], prefixes: Mapping[str, str]) -> dict[str, Outcome[Listed]]:
    return on_all({name: partial(_listed, host, prefixes[name]) for name, host in hosts.items()})


def _listed(host: Host, prefix: str) -> Listed:
    said: dict[str, list[str]] = {}
    for line in remote.listing(host, prefix).stdout.splitlines():
        name, _, value = line.partition("=")
        said.setdefault(name, []).append(value)
    builds = [line.split() for line in said.get("build", [])]
    one = {name: values[0].removeprefix("builds/") for name, values in said.items() if name != "build"}
    return Listed(
        prefix=one.get("prefix", prefix),
        current=one.get("current", ""),
        previous=one.get("previous", ""),
        owner=one.get("owner", ""),
        builds=tuple((name, int(when), int(kib)) for name, when, kib in builds),
    )


@contextmanager
def progress(names: list[str], *, shown: bool) -> Iterator[Told]:
    """A line a host on a terminal, redrawn; nothing elsewhere."""
    if not shown:
        yield lambda _host, _what: None
        return
    from rich.live import Live
    from rich.text import Text

    doing, lock = dict.fromkeys(names, "connecting"), threading.Lock()

    def view() -> Text:
        with lock:
            lines = [f"{name}  {what}" for name, what in doing.items()]
        more = f"\nand {len(lines) - 20} more" if len(lines) > 20 else ""
        return Text("\n".join(lines[:20]) + more)

    def told(host: str, what: str) -> None:
        with lock:
            doing[host] = what

    with Live(get_renderable=view, refresh_per_second=8, transient=True):
        yield told
