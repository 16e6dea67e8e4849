"""`r2cc fork`: which NCCL we fork."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.commands.options import json_option, nccl_option, quiet_option
from harness.schemas import dumped

if TYPE_CHECKING:
    from harness.fork.state import ForkStatus

force_option = click.option("--force", is_flag=True, help="Replace an edited tree; the edits are lost.")


@click.group(short_help="Fetch, patch and refresh the NCCL we fork.")
def fork() -> None:
    """The NCCL we fork: fetched from any source, verified against nccl_fork/pins, patched, edited, refreshed.

    Maintainers edit nccl_fork/tree and run `r2cc fork refresh`.

    \b
    Examples:
      r2cc fork fetch && r2cc fork patch
      r2cc fork status
      r2cc fork fetch --nccl 2.30.7
    """


@fork.command(short_help="Fetch the pinned NCCL and verify it.")
@click.option(
    "--source",
    metavar="PATH",
    help="A directory, tar archive or git repository (also a URL). Default: $R2CC_NCCL_SOURCE, else the cache, "
    "upstream git, and the distribution's source archive through apt, in this order.",
)
@force_option
@nccl_option()
@quiet_option()
@json_option()
def fetch(source: str | None, force: bool, version: str | None, quiet: bool, as_json: bool) -> None:
    """Fetch the pinned NCCL into nccl_fork/tree. Whatever the source, its content must match the pin.

    \b
    Examples:
      r2cc fork fetch
      r2cc fork fetch --source ~/nccl.tar.gz
    """
    from harness.fork.tree import fetch as fetch_tree
    from harness.repo import checkout

    _print(fetch_tree(checkout(version), source, force=force), quiet=quiet, as_json=as_json)


@fork.command(short_help="Apply our patches to the fetched NCCL.")
@force_option
@nccl_option()
@quiet_option()
@json_option()
def patch(force: bool, version: str | None, quiet: bool, as_json: bool) -> None:
    """Apply the version's patches of r2cc_patches/patches to the pristine source, if they changed since.

    \b
    Examples:
      r2cc fork patch
      r2cc fork patch --force
    """
    from harness.fork.tree import patch as patch_tree
    from harness.repo import checkout

    _print(patch_tree(checkout(version), force=force), quiet=quiet, as_json=as_json)


@fork.command(short_help="Say what is fetched, patched and edited.")
@nccl_option()
@json_option()
def status(version: str | None, as_json: bool) -> None:
    """Say what is fetched, from where, which patches are applied, and whether the tree was edited since.

    \b
    Examples:
      r2cc fork status
      r2cc fork status --json
    """
    from harness.fork.pin import load_pin
    from harness.fork.state import fork_status
    from harness.repo import checkout

    layout = checkout(version)
    _print(fork_status(layout, load_pin(layout.pin)), quiet=False, as_json=as_json)


@fork.command(short_help="Re-create the patches from an edited tree.")
@click.option(
    "--into", metavar="PATCH", help="The patch for edits of files that no patch touches yet. It may be a new name."
)
@nccl_option()
@json_option()
def refresh(into: str | None, version: str | None, as_json: bool) -> None:
    """Re-create the patch files from nccl_fork/tree.

    Each patch keeps its header and its files. Edits of a file that several patches touch go to the last of them.

    \b
    Examples:
      r2cc fork refresh
      r2cc fork refresh --into 0003-topic
    """
    from harness.fork.refresh import Refreshed
    from harness.fork.refresh import refresh as refresh_patches
    from harness.repo import checkout

    lines = refresh_patches(checkout(version), into=into)
    click.echo(dumped(Refreshed(lines)) if as_json else "\n".join(lines))


def _print(found: ForkStatus, *, quiet: bool, as_json: bool) -> None:
    if as_json:
        click.echo(dumped(found, 1))
    for line in () if quiet or as_json else describe(found):
        click.echo(line)


def describe(found: ForkStatus) -> list[str]:
    """The status for a human."""
    lines = [f"NCCL {found.version}, commit {found.commit[:12]}, tree {found.pinned_tree[:12]}"]
    if not found.fetched:
        absent = "the tree is of another version or not ours" if found.exists else "not fetched"
        return [*lines, f"  {absent}: `r2cc fork fetch`"]
    lines.append(f"  fetched and verified (source: {found.source})")
    if found.patched:
        lines.append(f"  patched: {len(found.applied)} of {len(found.patches)} patches applied")
        lines += [f"    {patch.name}" for patch in found.applied]
    else:
        lines.append(f"  patches to apply: {len(found.patches)}: `r2cc fork patch`")
    if found.edited:
        lines.append("  edited since: `r2cc fork refresh` makes patches of the edits")
    return lines
