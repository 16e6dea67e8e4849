"""Imported before what may not be installed: what the program lacks is one line, and exit code 2."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import NoReturn


def told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What Python calls with an error that nobody caught."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return sys.__excepthook__(kind, error, trace)
    end(f"needs {error.name}, and {sys.executable} does not have it")


def end(why: str) -> NoReturn:
    """The program cannot begin."""
    print(f"{Path(sys.argv[0]).name} {why}", file=sys.stderr, flush=True)
    sys.exit(2)


sys.excepthook = told
