"""Options and types that commands share, so that all take and explain them alike. Imports little: for `r2cc --help`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

F = TypeVar("F", bound=Callable[..., Any])
Option = Callable[[F], F]


class Size(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions of click
    """Bytes, as 64M, 64MiB, 64MB or 67108864; `least` and `most` are bytes, too."""

    name = "size"

    def __init__(self, least: int = 0, most: int | None = None) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from harness.errors import UsageError
        from harness.units import parse_bytes

        try:
            found = value if isinstance(value, int) else parse_bytes(str(value))
        except UsageError as error:
            self.fail(str(error.message), param, ctx)
        if found < self._least or (self._most is not None and found > self._most):
            most = "" if self._most is None else f" and at most {self._most}"
            self.fail(f"{value} is out of range: at least {self._least}{most} bytes are needed", param, ctx)
        return found


class FilePath(click.Path):
    """A file or folder, as a Path. An empty word, as of a variable that is not set, names none: it is not '.'."""

    def __init__(self, **checks: bool) -> None:
        super().__init__(path_type=Path, **checks)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not str(value):
            self.fail("an empty word names no file or folder; the current folder is '.'", param, ctx)
        return Path(str(super().convert(value, param, ctx)))


class OutFile(FilePath):
    """A file that is written at the end, with the folders that it needs. What would forbid that is told before work.

    `unless`: an eager flag of the command with which nothing is written, and so nothing is tried. `in_folder`: its
    folder has to be there, as another program looks into it: in one that is made for it, nobody would."""

    def __init__(self, unless: str = "", *, in_folder: bool = False) -> None:
        super().__init__()
        self.name = "file"  # click says "path" where a folder would do; `check_writable` refuses it, in our words
        self._unless, self._in_folder = unless, in_folder

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        from harness.files.writing import check_writable, target_of, told

        found = super().convert(value, param, ctx)
        if ctx is None or not (ctx.resilient_parsing or ctx.params.get(self._unless)):  # else a shell completes a line
            with told(found):
                target = target_of(found)
            if self._in_folder and target is not None and not target.parent.is_dir():
                why = "it is not made here, as another program has to look into it"
                self.fail(f"folder '{target.parent}' does not exist: {why}", param, ctx)
            check_writable(found)
        return found


class OutFolder(FilePath):
    """A folder that files are written into at the end; it is made. What would forbid that is told before work."""

    def __init__(self) -> None:
        super().__init__(file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        from harness.files.writing import check_folder

        found = super().convert(value, param, ctx)
        if ctx is None or not ctx.resilient_parsing:
            check_folder(found)
        return found


class ExperimentPath(FilePath):
    """A file or folder; `experiments/...` is found in the wheel, too (harness.repo.shipped)."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        from harness.repo import shipped

        return shipped(super().convert(value, param, ctx))


class Renamed(click.Option):
    """An option whose `old` name still works, and is not shown any more."""

    def __init__(self, *names: Any, old: str, **more: Any) -> None:
        super().__init__(*names, **more)
        self._old = old

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        parser.add_option(obj=self, opts=[self._old], dest=self.name)


def out_option(command: F) -> F:
    """`--out`, of commands that make a run."""
    return click.option(
        "--out",
        type=FilePath(file_okay=False),
        default=Path("runs"),
        help="Where the run directory is made.",
    )(command)


def check_out(out: Path, *, dry: bool) -> None:
    """That the run directory can be made in `--out`, of the command that runs. A dry run needs none, so it looks only
    where `--out` was given, and writes nothing there."""
    from harness.files import rundir

    given = click.get_current_context().get_parameter_source("out") is not ParameterSource.DEFAULT
    if given or not dry:
        rundir.check(out, dry=dry)


def json_option(text: str = "Print the result as one JSON object.") -> Callable[[F], F]:
    """`--json`: one object with `schema` on stdout, and nothing else there. The command has it as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def quiet_option(text: str = "Print no progress.", *, given: bool = True) -> Callable[[F], F]:
    """`-q`, `--quiet`, which `harness.progress.show` heeds. Unless `given`, the command itself need not know of it."""
    return click.option("-q", "--quiet", is_flag=True, expose_value=given, callback=_keep_quiet, help=text)


def _keep_quiet(context: click.Context, _param: click.Parameter, quiet: bool) -> bool:
    from harness.progress import QUIET

    context.meta[QUIET] = quiet
    return quiet


OTHER_NCCL = (
    "Another NCCL than 2.29.7: one of nccl_fork/pins. It has folders of its own (tree-2.30.7, build/net-2.30.7)."
)


def nccl_option(text: str = OTHER_NCCL) -> Callable[[F], F]:
    """`--nccl VERSION`: which of the NCCLs in nccl_fork/pins. The command has it as `version`."""
    return click.option("--nccl", "version", metavar="VERSION", help=text)


RUN_NCCL = "Run what was built for this version of NCCL (`r2cc build net --nccl`, or `build nccl` for GPUs)."
"""Of the commands that run experiments."""


def arms_option(text: str = "Run only these arms of the experiment.") -> Callable[[F], F]:
    """`--arms A,B`, also as `--arm A`."""
    return click.option("--arms", "--arm", "arms", metavar="A,B", help=text)


def set_option(text: str = "Change the file's value at a dotted key; may be repeated.") -> Callable[[F], F]:
    """`--set KEY=VALUE`, as often as one likes; `changes_of` reads it. The command has it as `settings`."""
    return click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=text)


def changes_of(settings: tuple[str, ...]) -> dict[str, Any]:
    """What `--set` asks for, by key. UsageError for what is no KEY=VALUE."""
    from harness.config.dotted import setting

    return dict(map(setting, settings))
