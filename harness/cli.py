"""The `r2cc` command: loads sub-commands by entry point and turns errors into one clear message.

Everything here, and every module registered in the group `r2cc.commands`, is imported for `r2cc --help` and must be
light: no pydantic, pyroute2 or rich at module level.
"""

from __future__ import annotations

import harness.early  # noqa: F401 - the first of all: see there

# isort: split
import os
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from typing import Any, NoReturn

import click

from harness import interrupts
from harness.errors import InfraError, InternalError, R2ccError, UsageError
from harness.files.os_errors import described, of_the_network
from harness.plugins import entries

COMMAND_GROUP = "r2cc.commands"
INTERRUPTED_EXIT_CODE = interrupts.EXIT_CODE
OUTPUT_CUT_OFF_EXIT_CODE = 141
SECTIONS = {
    "Build": ("fork", "build", "deploy"),
    "Hosts": ("lab", "hosts", "inventory", "doctor"),
    "Jobs": ("env", "plugin-path"),
    "Experiments": ("chaos", "sim", "run", "panic"),
    "Results": ("report", "trace", "plan", "compare", "runs"),
}
"""What `r2cc --help` shows together; what is not named here comes last."""
EPILOG = """\b
Examples:
  r2cc build net && r2cc chaos run experiments/nic_down.yaml
  r2cc hosts check --inventory cluster.yaml
  eval "$(r2cc completion bash)"

`r2cc COMMAND --help` has more of each. R2CC_DEBUG=1 shows the traceback of an error.
"""


class EntryPointGroup(click.Group):
    """A group whose sub-commands are the entry points of `r2cc.commands`, imported when first needed."""

    def _entry_points(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entries(COMMAND_GROUP)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of everything registered, whether or not it can be imported."""
        return sorted({*super().list_commands(ctx), *self._entry_points()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command itself; one whose module cannot be imported becomes a command that says so."""
        registered = super().get_command(ctx, cmd_name)
        entry = self._entry_points().get(cmd_name)
        if registered is not None or entry is None:
            return registered
        return load_command(entry)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by what they are for."""
        left = self.list_commands(ctx)
        for title, names in [*SECTIONS.items(), ("Other", (*left,))]:
            chosen = [name for name in names if name in left]
            left = [name for name in left if name not in chosen]
            commands = [(name, self.get_command(ctx, name)) for name in chosen]
            width = formatter.width - 6 - max(map(len, self.list_commands(ctx)))
            rows = [(name, command.get_short_help_str(width)) for name, command in commands if command is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does. All is imported then, and what comes next may have something to end and to heal."""
        found = super().resolve_command(ctx, args)
        interrupts.raise_it()
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Run the sub-command. Caught here because click itself would end with 1, which means "deviated" here, and take
        an EOFError for Ctrl-C."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            return _reader_went_away()
        except EOFError as error:
            raise RuntimeError(f"EOFError: {error}") from error
        except KeyboardInterrupt as error:
            raise Interrupted from error


class Interrupted(Exception):
    """Ctrl-C, after what was begun has been ended."""


def load_command(entry: EntryPoint) -> click.Command:
    """Import one entry point. A broken one must not take `r2cc --help` and every other command down with it."""
    try:
        command = entry.load()
    except (ImportError, AttributeError) as error:
        return unavailable_command(entry, error)
    if not isinstance(command, click.Command):
        return unavailable_command(entry, TypeError(f"{entry.value} is not a click command"))
    return command


def unavailable_command(entry: EntryPoint, cause: Exception) -> click.Command:
    """A stand-in that names the module and why it could not be imported, when called."""

    def explain() -> NoReturn:
        hint = "reinstall r2cc (`make setup`); R2CC_DEBUG=1 shows the import's traceback"
        raise UsageError(f"`r2cc {entry.name}` cannot be loaded from {entry.value}: {cause}", hint=hint) from cause

    return click.Command(
        entry.name,
        callback=explain,
        short_help=f"(cannot be loaded: {cause})",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        add_help_option=False,
    )


def _show_version(context: click.Context, _param: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from harness import versions

        click.echo(versions.text())
        context.exit()


@click.group(
    cls=EntryPointGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show versions and exit."
)
def cli() -> None:
    """Keep NCCL's collectives running through NIC and link failures, and prove it with experiments.

    Exit codes: 0 holds, 1 deviated or regressed, 2 bad usage or input, 3 the infrastructure failed (run again),
    70 a mistake of r2cc itself (please report it), 130 interrupted.
    """


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the console script; always ends the process with an exit code of the overview."""
    interrupts.end_at_once()
    interrupts.ignore_at_last()
    interrupts.unblock()
    try:
        code = _flushed(run_cli(argv))
    except KeyboardInterrupt:  # once more, while the first was answered
        code = INTERRUPTED_EXIT_CODE
    interrupts.end_at_once(code, "")  # it is done: there is nothing left to interrupt
    sys.exit(code)


def _flushed(code: int) -> int:
    """What was printed is out, or nobody reads it any more."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        return _reader_went_away()
    except OSError as error:
        return report_error(error)
    return code


def run_cli(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code, with at most one message on stderr for what went wrong."""
    try:
        result = cli.main(args=None if argv is None else list(argv), prog_name="r2cc", standalone_mode=False)
    except click.ClickException as error:
        return report_mistyped(error, sys.argv[1:] if argv is None else argv)
    except (click.Abort, KeyboardInterrupt, Interrupted):
        return _interrupted()
    except Exception as error:  # noqa: BLE001 - the one place that decides what a user sees of an error
        return _interrupted(error) if _while_interrupted(error) else report_error(error)
    return result if isinstance(result, int) else 0


def report_mistyped(error: click.ClickException, words: Sequence[str]) -> int:
    """click's errors, of words that no command takes, in the style of all others; a group alone shows its help."""
    if error.__class__.__name__ == "NoArgsIsHelpError":
        error.show()
        return UsageError.exit_code
    from harness.commands.elsewhere import hint

    said = error.format_message().strip().rstrip(".")
    _tell(str(UsageError(f"{said[:1].lower()}{said[1:]}", hint(error, cli) or f"{_path_of(words)} --help")))
    return UsageError.exit_code


def _path_of(words: Sequence[str]) -> str:
    """The command that is meant: click knows it only of some errors. Groups have no options with values."""
    path: list[str] = ["r2cc"]
    command: click.Command = cli
    for word in words:
        inner = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        if inner is None:
            break
        path, command = [*path, word], inner
    return " ".join(path)


def _tell(what: str) -> None:
    """The one form of an error: what, in lower case and without a full stop, and in a line of its own what to try."""
    from harness.config import plain

    click.echo(f"r2cc: error: {plain.lines(what)}", err=True)


def _interrupted(error: Exception | None = None) -> int:
    """`error`: what could not be ended or healed."""
    start = "\n" if sys.stderr.isatty() else ""
    click.echo(f"{start}{interrupts.LINE.rstrip()}" + (f"; then: {describe_error(error)}" if error else ""), err=True)
    return INTERRUPTED_EXIT_CODE


def _while_interrupted(error: BaseException) -> bool:
    """Whether it was raised while Ctrl-C was answered: then Ctrl-C is the reason, whatever else went wrong."""
    seen: set[int] = set()
    step: BaseException | None = error
    while step is not None and id(step) not in seen:
        if isinstance(step, KeyboardInterrupt):
            return True
        seen.add(id(step))
        step = step.__cause__ or step.__context__
    return False


def report_error(error: Exception) -> int:
    """Print one message for the error and return its exit code; with R2CC_DEBUG=1, the traceback instead."""
    if os.environ.get("R2CC_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    else:
        _tell(describe_error(error))
    return exit_code_of(error)


def exit_code_of(error: Exception) -> int:
    """Expected errors have their own; what a file system refuses is bad input; the rest is a mistake of ours."""
    if isinstance(error, R2ccError):
        return error.exit_code
    if isinstance(error, MemoryError):
        return InfraError.exit_code
    if isinstance(error, OSError):
        return InfraError.exit_code if of_the_network(error) else UsageError.exit_code
    return UsageError.exit_code if isinstance(error, RecursionError) else InternalError.exit_code


def describe_error(error: Exception) -> str:
    """Expected errors speak for themselves; the operating system's are named; the rest is a bug of ours."""
    if isinstance(error, R2ccError):
        return str(error)
    if isinstance(error, OSError):
        return described(error)
    if isinstance(error, RecursionError):
        return "the input is nested too deeply\n  try: R2CC_DEBUG=1 shows where"
    if isinstance(error, MemoryError):
        return "this machine has too little memory for that\n  try: a smaller input, or a larger machine"
    summary = f"{type(error).__name__}: {error}"
    return f"internal error, please report it: {summary}\n  try: R2CC_DEBUG=1 shows the traceback"


def _reader_went_away() -> int:
    """`r2cc ... | head`: end as SIGPIPE would, in silence; stdout goes elsewhere for the interpreter's last flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OUTPUT_CUT_OFF_EXIT_CODE


interrupts.raise_it()  # until `main`: who imports this for something else has Ctrl-C as before
