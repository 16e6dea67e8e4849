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


@fork.command(short_help="Carry our patches over to another NCCL.")
@click.argument("what", metavar="TAG|VERSION|FOLDER|ARCHIVE")
@click.option(
    "--source",
    metavar="PLACE",
    help="Where the tag is: a git repository or its URL. Default: $R2CC_NCCL_SOURCE, else "
    "upstream's. A folder or an archive holds one version, and may be named in the tag's place.",
)
@click.option("--from", "base", metavar="VERSION", help="Whose patches to carry over. Default: 2.29.7's.")
@click.option(
    "--write",
    is_flag=True,
    help="Then build, run the C++ tests, and write pin and patches if all pass, and if none are there.",
)
@click.option(
    "--partial",
    is_flag=True,
    help="Write pin and patches without the hunks that failed, to be mended, and test nothing.",
)
@quiet_option()
@json_option()
@click.pass_context
def port(
    context: click.Context,
    *,
    what: str,
    source: str | None,
    base: str | None,
    write: bool,
    partial: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Say hunk by hunk where our patches belong in another NCCL, and whether the private names that we use are there.

    Nothing is written without --write or --partial. Exit code 1: a hunk failed, a name is missing, or the build or
    the tests failed. docs/howto/new-nccl.md says how to go on.

    \b
    Examples:
      r2cc fork port v2.30.7-1
      r2cc fork port ~/nccl-2.31 --from 2.30.7
      r2cc fork port 2.30.7 --source ~/nccl.git --write
    """
    from harness.port.port import port as carry_over
    from harness.port.report import describe as lines_of
    from harness.repo import checkout

    found = carry_over(checkout(base), what, source, write=write, partial=partial)
    if as_json:
        click.echo(dumped(found, 1))
    for line in () if quiet or as_json else lines_of(found):
        click.echo(line)
    context.exit(0 if found.ok else 1)


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
