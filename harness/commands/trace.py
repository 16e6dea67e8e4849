"""`r2cc trace`: what each connection did around a stall. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.options import FilePath, json_option, quiet_option
from harness.schemas import dumped

if TYPE_CHECKING:
    from harness.trace.gaps import Gap
    from harness.trace.story import End, Story

EXAMPLES = """\b
Examples:
  r2cc chaos run experiments/nic_down.yaml --trace
  r2cc trace runs/<time>-nic_down/raw/trace-migrate-0
  r2cc trace h1.4711.r2trace.1 --connection 7 --margin-ms 20
  r2cc trace dumps/ --around none --csv > records.csv

\b
Exit codes: 0 read and shown, 2 a file is not a dump, is cut off or too new, or has no such connection.
"""


@click.command(epilog=EXAMPLES)
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=FilePath())
@click.option(
    "--around",
    type=click.Choice(["stall", "failover", "none"]),
    default="stall",
    help="Which timelines: of the longest delivery gaps, of those that a failover explains, or none.",
)
@click.option(
    "--connection", "wanted", metavar="ID", help="Show only this connection: its number, or a name of the summary."
)
@click.option("--top", type=click.IntRange(1, 1000), default=1, help="How many gaps get a timeline.")
@click.option(
    "--margin-ms", type=click.FloatRange(0, 60000), default=2.0, help="How much to show before and after a gap."
)
@json_option("Print JSON (harness/schemas/trace.schema.json).")
@click.option("--csv", "as_csv", is_flag=True, help="Print every row as CSV.")
@click.option("--width", type=click.IntRange(40, 1000), help="The width of a line (default: the terminal's).")
@quiet_option()
def trace(
    *,
    paths: tuple[Path, ...],
    around: str,
    wanted: str | None,
    top: int,
    margin_ms: float,
    as_json: bool,
    as_csv: bool,
    width: int | None,
    quiet: bool,
) -> int:
    """Say what each connection did around a stall, from flight-recorder dumps (R2CC_TRACE_FILE) in FILEs or folders.

    Give the dumps of all hosts at once: both ends of a connection are shown together.
    """
    from harness.errors import UsageError

    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other", "give one of them")
    story = read(paths, quiet=quiet)
    ends = chosen_ends(story, wanted)
    view = View(story, ends, *_gaps(story, ends, around, top), margin_ms)
    if as_csv:
        view.csv()
    elif as_json:
        view.json()
    else:
        view.text(width or _terminal_width())
    return 0


def read(paths: tuple[Path, ...], *, quiet: bool = True) -> Story:
    """The dumps in files and folders, merged. Raises UsageError for what is none."""
    from harness.progress import show, silent
    from harness.trace.dump import load
    from harness.trace.story import tell

    files = _files(paths)
    dumps = []
    with (silent if quiet else show)("reading dumps") as step:
        for count, path in enumerate(files):
            step.update(f"{count} of {len(files)}")
            dumps.append(load(path))
        step.update("putting them together")
        return tell(dumps)


def _files(paths: tuple[Path, ...]) -> list[Path]:
    """Named files as they are; of folders, the dumps in them."""
    from harness.errors import UsageError
    from harness.trace.dump import HINT, is_dump

    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = [file for file in sorted(path.rglob("*")) if file.is_file() and file.suffix != ".part"]
        dumps = [file for file in inside if is_dump(file)]
        if not dumps:
            raise UsageError(f"there is no dump in {path}", HINT)
        files += dumps
    return list(dict.fromkeys(files))


def chosen_ends(story: Story, wanted: str | None) -> list[End]:
    """All ends, or those of one connection. Raises UsageError when there is none such."""
    from harness.errors import UsageError

    ends = sorted(story.ends(), key=lambda end: (end.process.label, end.direction, end.id))
    if wanted is None:
        return ends
    found = [end for end in ends if wanted in (str(end.id), end.name)]
    if not found:
        names = ", ".join(end.name for end in ends[:8]) + (", ..." if len(ends) > 8 else "")
        raise UsageError(f"no connection {wanted!r} in these dumps", f"they have {names}" if ends else None)
    return found


def _gaps(story: Story, ends: list[End], around: str, top: int) -> tuple[dict[str, float], list[Gap]]:
    """The longest gap in ms of each connection that has one of its ends among `ends`, and the gaps to be shown."""
    from harness.trace.gaps import failovers, longest

    names = {end.name for end in ends} | {other.name for end in ends if (other := story.other(end)) is not None}
    all_gaps = longest(story)
    candidates = {"stall": all_gaps, "failover": failovers(story) if around == "failover" else [], "none": []}
    chosen = [gap for gap in candidates[around] if gap.end.name in names]
    return {gap.end.name: gap.ms for gap in all_gaps if gap.end.name in names}, chosen[:top]


@dataclass(frozen=True)
class View:
    """What was asked for, in each of the three forms."""

    story: Story
    ends: list[End]
    gap_ms: dict[str, float]
    chosen: list[Gap]
    margin_ms: float

    def csv(self) -> None:
        """The rows of the gaps chosen, or all that was recorded."""
        from harness.trace.text import write_csv
        from harness.trace.timeline import all_rows, rows

        margin = round(self.margin_ms * 1e6)
        spans = [(gap.end, gap.start_ns - margin, gap.end_ns + margin) for gap in self.chosen]
        found = (row for span in spans for row in rows(self.story, *span, gather=False))
        write_csv(found if self.chosen else all_rows(self.story), sys.stdout)

    def json(self) -> None:
        from harness.trace.facts import facts

        click.echo(dumped(facts(self.story, self.chosen, self.ends, self.margin_ms), 1))

    def text(self, width: int) -> None:
        from harness.trace.facts import facts
        from harness.trace.text import render

        for line in render(facts(self.story, self.chosen, self.ends, self.margin_ms), self.gap_ms, width):
            click.echo(line)


def _terminal_width() -> int:
    """A pipe gets whole lines."""
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 1000
