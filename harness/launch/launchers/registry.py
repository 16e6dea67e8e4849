"""The launchers that there are: entry points of `r2cc.launchers`, ours among them (pyproject.toml)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from inspect import isabstract

from harness import plugins
from harness.launch.launchers.launcher import Launcher

GROUP = "r2cc.launchers"


def launchers() -> Mapping[str, Launcher]:
    """By name. What cannot be used is said on stderr, once, and left out."""
    return _loaded().made


@cache
def _loaded() -> plugins.Kinds[Launcher]:
    return plugins.kinds(GROUP, "launcher", checked)


def checked(_name: str, found: object) -> Launcher:
    """The class behind an entry point, made. ValueError or TypeError for what breaks the contract of Launcher."""
    if not isinstance(found, type) or not issubclass(found, Launcher):
        raise TypeError(f"{found!r} is no class derived from harness.launch.launchers.launcher.Launcher")
    if isabstract(found):
        raise ValueError(f"{found.__name__} lacks {', '.join(sorted(found.__abstractmethods__))}")
    return found()
