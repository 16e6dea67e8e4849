"""What a job's environment needs so that NCCL takes our net plugin, in the words of what starts the job."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.schemas.form import form

PLAIN = re.compile(r"[A-Za-z0-9_./+@%=:~-]+")


@form("env", "r2cc env --json")
@dataclass(frozen=True)
class Settings:
    """`text`: what `r2cc env` prints without --json."""

    launcher: str
    variables: Mapping[str, str]
    text: str


def settings_of(launcher: str, library: Path, mode: int) -> Settings:
    """For shell, torchrun, mpirun, srun or kubernetes. UsageError where it cannot take the library's path."""
    variables = {"NCCL_NET_PLUGIN": str(library), "R2CC_MODE": str(mode)}
    if launcher in WORDS and not PLAIN.fullmatch(str(library)):
        raise UsageError(
            f"the path {library} cannot be a word of {launcher}: it has a space, a comma or a sign of the shell",
            f'eval "$(r2cc env)"; {launcher} {BY_NAME[launcher]}',
        )
    return Settings(launcher, variables, FORMS[launcher](variables))


def _exports(variables: Mapping[str, str]) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())


def _mpirun(variables: Mapping[str, str]) -> str:
    return " ".join(f"-x {name}={value}" for name, value in variables.items())


def _srun(variables: Mapping[str, str]) -> str:
    return "--export=" + ",".join(["ALL", *(f"{name}={value}" for name, value in variables.items())])


def _kubernetes(variables: Mapping[str, str]) -> str:
    """A container's `env:`; JSON's strings are YAML's."""
    lines = (f"  - name: {name}\n    value: {json.dumps(value)}" for name, value in variables.items())
    return "\n".join(["env:", *lines])


BY_NAME = {"mpirun": "-x NCCL_NET_PLUGIN -x R2CC_MODE", "srun": "--export=ALL"}
"""What hands over what is exported; values stay out of the command line."""
WORDS = ("mpirun", "srun")
"""Their text is put into a command line, where the shell splits it."""
FORMS: dict[str, Callable[[Mapping[str, str]], str]] = {
    "shell": _exports,
    "torchrun": _exports,
    "mpirun": _mpirun,
    "srun": _srun,
    "kubernetes": _kubernetes,
}
"""torchrun gives its own environment to all that it starts on a host: each host's torchrun needs the exports."""
