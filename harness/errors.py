"""The errors a user can see, each with the exit code it ends the command with (docs/reference/contracts.md)."""

from __future__ import annotations

import shlex
import sys
from typing import Any


def extra_hint(extra: str) -> str:
    """How to install an extra into the Python that runs this: another `pip` would put it, and an `r2cc`, elsewhere."""
    return f"{shlex.quote(sys.executable or 'python3')} -m pip install 'r2cc[{extra}]'"


class R2ccError(Exception):
    """Base of every expected failure: a message that says what, and a hint that says what to do next."""

    exit_code = 3

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        """Whole, from one process to another: pickle would call the class with the message alone."""
        return _again, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        return f"{self.message}\n  try: {self.hint}" if self.hint else self.message


def _again(kind: type[R2ccError], args: tuple[Any, ...], state: dict[str, Any]) -> R2ccError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class UsageError(R2ccError):
    """Bad usage or bad input; nothing was started."""

    exit_code = 2


class InfraError(R2ccError):
    """The infrastructure failed; says nothing about R2CC. Run again."""


class InternalError(R2ccError):
    """A mistake of r2cc itself (EX_SOFTWARE of sysexits.h): to run it again, as after 3, is no use."""

    exit_code = 70


class CommandError(InfraError):
    """A command on a host failed: names host, argv, exit code and the last lines of stderr."""


class ReachError(InfraError):
    """A host could not be reached, or was lost. `kind` is a word for programs (docs/howto/cluster.md)."""

    def __init__(self, kind: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.kind = kind


class SshError(ReachError):
    """Over SSH."""


class PodError(ReachError):
    """By `kubectl exec`."""


class SourceError(InfraError):
    """NCCL's source could not be had, or is not what the pin says."""


class BuildError(InfraError):
    """A compiler or make failed."""


class LabError(InfraError):
    """The lab could not be built or was lost."""


class FaultError(InfraError):
    """A fault could not be injected, verified or reverted."""


class InputErrors(UsageError):
    """Every error of one input file at once, each with file and line. `hint`: for what a message does not say."""

    def __init__(self, errors: list[str], hint: str | None = None) -> None:
        super().__init__("\n".join(errors), hint)
        self.errors = errors
