"""`r2cc deploy`: a build onto every host of an inventory. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.commands.options import json_option, quiet_option
from harness.commands.site_option import site_option
from harness.errors import InfraError, UsageError
from harness.schemas import dumped

if TYPE_CHECKING:
    from harness.deploy.build import Build
    from harness.deploy.deploy import Done, Planned
    from harness.hosts.parallel import Outcome
    from harness.sites.site import Site


@click.command()
@site_option(required=True, metavar="FILE|FILE:HOSTS|slurm", text="Which hosts (docs/howto/cluster.md).")
@click.option(
    "--build",
    "what",
    default="auto",
    metavar="auto|net|nccl|DIR",
    help="What to copy: net (library and host bench), nccl (with the patched NCCL), or auto (nccl if it was built).",
)
@click.option("--prefix", metavar="DIR", help="Where it goes on the hosts, instead of the inventory's `prefix`.")
@click.option("--keep", type=click.IntRange(1, 1000), default=3, help="How many builds stay there.")
@click.option("--rollback", is_flag=True, help="Go back to what every host had before.")
@click.option("--list", "list_", is_flag=True, help="Show what lies on every host; change nothing.")
@click.option("--dry-run", is_flag=True, help="Say what would be sent; change nothing.")
@json_option()
@quiet_option()
def deploy(
    *,
    site: Site,
    what: str,
    prefix: str | None,
    keep: int,
    rollback: bool,
    list_: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Put a build on every host: only what a host lacks, verified there, switched in one step.

    A host on which something fails keeps what it had. Jobs that run go on with the files they have open.

    \b
    Examples:
      r2cc deploy --inventory cluster.yaml
      r2cc deploy --inventory cluster.yaml:node[01-04] --build net --dry-run
      r2cc deploy --inventory cluster.yaml --rollback

    \b
    Exit codes: 0 done on all hosts, 2 the build cannot run on one of them (nothing was copied), 3 a host failed.
    2 also: a host has no earlier build for --rollback.
    """
    from harness.sites.cluster import of_a_file

    if rollback + list_ + dry_run > 1:
        raise UsageError("give only one of --rollback, --list and --dry-run", "r2cc deploy --help")
    cluster = of_a_file(site, "a lab has all that is built here", "name one with --inventory (docs/howto/cluster.md)")
    prefixes = {host.name: prefix or host.prefix for host in cluster.members}
    reached = cluster.hosts()
    if list_:
        return _list(reached, prefixes, as_json=as_json)
    if rollback:
        return _roll_back(reached, prefixes, as_json=as_json)
    return _put(reached, prefixes, _build(what), keep=keep, dry_run=dry_run, as_json=as_json, quiet=quiet)


def _build(what: str) -> Callable[[str], Build]:
    """Of a kind of CPU."""
    from harness.deploy import build
    from harness.repo import programs

    if what not in ("auto", "net", "nccl"):
        given = build.folder(Path(what))
        return lambda _: given
    layout = programs()
    patched = what == "nccl" or (what == "auto" and (layout.nccl / "lib" / "libnccl.so.2").is_file())
    return build.for_machines(layout, what, build.nccl(layout) if patched else build.net(layout))


def _put(
    reached: Mapping[str, Any],
    prefixes: dict[str, str],
    build_for: Callable[[str], Build],
    *,
    keep: int,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    from harness.deploy import deploy as work
    from harness.hosts.lease import me

    planned = work.plan(reached, prefixes, build_for)
    builds = work.builds(planned)
    names = ", ".join(build.name for build in builds)
    if dry_run:
        _say_plan(planned, names, as_json=as_json)
        return 0
    started = time.monotonic()
    with work.progress([*reached], shown=sys.stdout.isatty() and not (as_json or quiet)) as told:
        results = work.deploy(reached, planned, str(me()), keep=keep, told=told)
    seconds = time.monotonic() - started
    for build in [] if as_json else builds:
        size = sum(file.size for file in build.objects.values())
        click.echo(f"build {build.name}: {len(build.files)} files, {size / 1e6:.1f} MB")
    return _say(results, as_json=as_json, build=names, seconds=round(seconds, 3))


def _say_plan(planned: Mapping[str, Planned], names: str, *, as_json: bool) -> None:
    from harness.deploy.deploy import DeployPlan

    hosts = {name: each.shown() for name, each in planned.items()}
    if as_json:
        click.echo(dumped(DeployPlan(names, True, hosts)))
        return
    click.echo(f"build {names}; nothing was changed")
    for name, each in hosts.items():
        has = f"has {each.current or 'nothing'}; {each.files} files, {each.bytes / 1e6:.1f} MB would be sent"
        click.echo(f"{name}  {each.prefix}: {has}")


def _roll_back(reached: Mapping[str, Any], prefixes: dict[str, str], *, as_json: bool) -> int:
    from harness.deploy import deploy as work
    from harness.hosts.lease import me

    return _say(work.rollback(reached, prefixes, str(me())), as_json=as_json, rollback=True)


def _say(results: Mapping[str, Outcome[Done]], *, as_json: bool, **about: Any) -> int:
    from harness.deploy import deploy as work

    failed = [outcome for outcome in results.values() if outcome.error is not None]
    if as_json:
        hosts = work.results(results)
        click.echo(dumped(work.Deploy(failed=len(failed), hosts=hosts, **about)))
    else:
        for name, outcome in results.items():
            click.echo(_line(name, outcome))
        click.echo(f"{len(results) - len(failed)} of {len(results)} hosts done")
    return max((outcome.error.exit_code for outcome in results.values() if outcome.error is not None), default=0)


def _line(name: str, outcome: Outcome[Done]) -> str:
    if outcome.value is None:
        return f"{name}  FAILED, it has what it had  {outcome.why}"
    done = outcome.value
    if done.shared_with:
        return f"{name}  {done.now} (the same folder as {done.shared_with})"
    before = f", before {done.was}" if done.was and done.was != done.now else ""
    removed = f"; removed {', '.join(done.removed)}" if done.removed else ""
    sent = f"{done.sent_files} files sent, {done.sent_bytes / 1e6:.1f} MB" if done.sent_files else "nothing to send"
    return f"{name}  {done.now}{before}  {sent}, {outcome.elapsed_s:.1f} s{removed}"


def _list(reached: Mapping[str, Any], prefixes: dict[str, str], *, as_json: bool) -> int:
    from harness.deploy import deploy as work

    results = work.listed(reached, prefixes)
    if as_json:
        hosts = work.results(results)
        click.echo(dumped(work.DeployList(hosts)))
        return InfraError.exit_code if any(outcome.error for outcome in results.values()) else 0
    for name, outcome in results.items():
        if outcome.value is None:
            click.echo(f"{name}  FAILED  {outcome.why}")
            continue
        found = outcome.value
        click.echo(f"{name}  {found.prefix}" + (f"  being deployed to by {found.owner}" if found.owner else ""))
        for build, _, kib in found.builds:
            word = "current" if build == found.current else "previous" if build == found.previous else ""
            click.echo(f"  {build}  {kib / 1024:.1f} MiB  {word}".rstrip())
    return InfraError.exit_code if any(outcome.error for outcome in results.values()) else 0
