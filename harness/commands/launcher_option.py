"""`--launcher` of every command. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem


class LauncherType(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions of click
    """The name of a launcher; those that are installed when it is asked for count. `more`: other words that will do."""

    name = "launcher"

    def __init__(self, *more: str) -> None:
        self._more = more

    def _known(self) -> list[str]:
        from harness.launch.launchers.registry import launchers

        return [*self._more, *launchers()]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self._known():
            self.fail(f"{value!r} is not one of {', '.join(map(repr, self._known()))}.", param, ctx)
        return str(value)

    def shell_complete(
        self, _ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        return [CompletionItem(name) for name in self._known() if name.startswith(incomplete)]
