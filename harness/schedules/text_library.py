"""A compiled library of ours, JSON text in and out (r2cc_patches/planner/c_text.h), through ctypes."""

from __future__ import annotations

import ctypes
import json
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import BuildError, InfraError, UsageError

BAD_INPUT = 2


def ask(function: str, request: str, library: Path, who: str) -> str:
    """The answer's text. `function` is the library's, `FUNCTION_free` frees; `who` is what messages call it.

    Raises UsageError, naming every problem of the request; BuildError when the library has not been built; InfraError.
    """
    asked, free = _load(library, function, who)
    out = ctypes.c_void_p()
    code = asked(request.encode(), ctypes.byref(out))
    try:
        text = ctypes.string_at(out.value or 0).decode()
    finally:
        free(out)
    if code == 0:
        return text
    problem = json.loads(text)
    if code == BAD_INPUT:
        raise UsageError(problem["error"], problem["hint"])
    raise InfraError(f"the {who} ended with {code}: {problem['error']}", problem["hint"])


def built(name: str) -> Path:
    """Where `r2cc build net` or the wheel leaves a library."""
    from harness.repo import programs

    return programs().net / name


@cache
def _load(path: Path, function: str, who: str) -> tuple[Any, Any]:
    """What answers, and what frees an answer."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"the {who} cannot be loaded: {error}", "r2cc build net") from error
    asked, free = library[function], library[f"{function}_free"]
    asked.argtypes, asked.restype = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)], ctypes.c_int
    free.argtypes, free.restype = [ctypes.c_void_p], None
    return asked, free
