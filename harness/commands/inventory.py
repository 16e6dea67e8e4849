"""`r2cc inventory`: makes inventory files from what a testbed says of its machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.options import FilePath, OutFile, json_option, quiet_option
from harness.errors import InfraError, UsageError
from harness.schemas import dumped_as

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.cloudlab.inventory import Access, Names
    from harness.cloudlab.manifest import Node


@click.group()
def inventory() -> None:
    """Make an inventory file, which says what hosts there are (see docs/howto/cluster.md).

    \b
    Examples:
      r2cc inventory from-cloudlab manifest.xml --out cluster.yaml
      r2cc inventory from-cloudlab manifest.xml --resolve --json
    """


@inventory.command(
    name="from-cloudlab",
    epilog="""\b
Examples:
  r2cc inventory from-cloudlab manifest.xml --out cluster.yaml --key ~/.ssh/cloudlab
  r2cc inventory from-cloudlab manifest.xml --user alice     where several users may log in
  r2cc inventory from-cloudlab manifest.xml --no-resolve --json

\b
Exit codes: 0 written, 2 the manifest is wrong (every mistake, with its line), 3 a host could not be asked (--resolve).
""",
)
@click.argument("manifest", type=FilePath(dir_okay=False))
@click.option("--out", type=OutFile(), help="Write the inventory to this file, not to stdout.")
@click.option("--force", is_flag=True, help="Replace the file of --out.")
@click.option("--user", help="The user who logs in, if not the one whom the manifest names.")
@click.option("--key", help="The private key to log in with.")
@click.option("--known-hosts", help="The file with the hosts' keys, instead of ~/.ssh/known_hosts.")
@click.option(
    "--resolve/--no-resolve",
    default=None,
    help="Ask the hosts what Linux calls their NICs, or do not. Without either: if all of them answer.",
)
@json_option("Print what the file holds as JSON.")
@quiet_option(given=False)
def from_cloudlab(
    *,
    manifest: Path,
    out: Path | None,
    force: bool,
    user: str | None,
    key: str | None,
    known_hosts: str | None,
    resolve: bool | None,
    as_json: bool,
) -> None:
    """Make an inventory of the hosts in MANIFEST, which CloudLab's portal shows for an experiment."""
    from harness.cloudlab.inventory import Access, checked, document, text
    from harness.cloudlab.manifest import load
    from harness.files.writing import write_whole

    if out is not None and out.exists() and not force:
        raise UsageError(f"{out} is there already", "--force replaces it")
    access = Access(user, key, known_hosts)
    nodes = load(manifest)
    _tell_left_out(nodes)
    shown = str(out or manifest)
    checked(text(nodes, access), shown)
    names = None if resolve is False else _names(nodes, access, shown, must=resolve is True)
    content = text(nodes, access, names)
    checked(content, shown)
    if out is not None:
        write_whole(out, content)
        click.echo(f"{out}: {len(nodes)} hosts; next: r2cc hosts check --inventory {out}", err=as_json)
    if as_json:
        click.echo(dumped_as("inventory_made", {**document(nodes, access, names), "resolved": names is not None}))
    elif out is None:
        click.echo(content, nl=False)


def _tell_left_out(nodes: Sequence[Node]) -> None:
    """Not where the profile is ours: there everybody knows."""
    from harness.cloudlab.rails import OTHER_LAN

    found = {name: why for node in nodes for name, why in node.left_out if why != OTHER_LAN}
    for name, why in found.items():
        click.echo(f"link '{name}' is no rail: {why}", err=True)


def _names(nodes: Sequence[Node], access: Access, shown: str, *, must: bool) -> Mapping[str, Names] | None:
    """NICs' names of all nodes, or None, and why on stderr."""
    from harness.cloudlab.inventory import checked, resolve, text
    from harness.progress import show
    from harness.sites.cluster import reached

    members = checked(text(nodes, access), shown)
    with show(f"asking {len(nodes)} hosts for their NICs"), reached(members) as hosts:
        outcomes = resolve(nodes, hosts)
    failed = [outcome for outcome in outcomes.values() if outcome.error is not None]
    for outcome in failed:
        click.echo(f"{outcome.error}", err=True)
    if failed and must:
        raise InfraError(f"{len(failed)} of {len(nodes)} hosts could not be asked for their NICs", "--no-resolve")
    if failed:
        click.echo("NICs stay named by their addresses: run it again when all hosts answer", err=True)
        return None
    return {name: outcome.value for name, outcome in outcomes.items() if outcome.value is not None}
