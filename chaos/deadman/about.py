"""What a record says of its fault: enough for any machine to build the fault again and to probe it."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from chaos.faults.example import ExampleNic
from chaos.faults.fault import Fault, NicLike
from chaos.faults.registry import fault_of, kinds, spec_of
from chaos.faults.spec import FaultSpec
from chaos.faults.steps import Answer

SCHEMA = 1
Json = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """An answer as it was kept."""

    exit_code: int
    stdout: str


def about(spec: FaultSpec, nics: Sequence[NicLike], at: str, facts: Sequence[Answer]) -> Json:
    """`facts` is what the fault's own facts said: with it the values that were there before are known again."""
    return {
        "schema": SCHEMA,
        "fault": spec.model_dump(mode="json", exclude_defaults=True, exclude_none=True),
        "at": at,
        "nics": [{key: getattr(nic, key) for key in ("host", "name", "address", "switch_port")} for nic in nics],
        "facts": [{"exit_code": answer.exit_code, "stdout": answer.stdout} for answer in facts],
        "controller": whoami(),
    }


def rebuilt(told: Mapping[str, Any]) -> Fault:
    """The fault of a record. ValueError when it is of another version of R2CC, or no such text."""
    try:
        if told.get("schema") != SCHEMA or told["fault"]["kind"] not in kinds():
            raise ValueError("written by another version of r2cc")
        spec = spec_of(told["fault"])
        nics = [ExampleNic(**{key: str(value) for key, value in nic.items()}) for nic in told["nics"]]
        fault = fault_of(spec, nics, str(told["at"]))
        return fault.knowing([Said(int(each["exit_code"]), str(each["stdout"])) for each in told["facts"]])
    except (KeyError, TypeError, IndexError, ValidationError) as error:
        raise ValueError(f"not understood: {type(error).__name__}: {error}") from error


def whoami() -> str:
    """`user@machine, pid 12`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}, pid {os.getpid()}"
