"""Whether builds are of the same sources, as their build.json says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def of_same_sources(builds: Iterable[Mapping[str, Any]]) -> bool:
    """Whether these (build.json) differ at most in their compiler and its flags, as builds for two kinds of CPU do."""
    found = [build.get("inputs") for build in builds]
    apart = ("compiler", "flags", "cuda_include")
    of = [{name: value for name, value in (each or {}).items() if name not in apart} for each in found]
    return all(of) and all(each == of[0] for each in of)
