"""`--inventory` of every command: its text becomes a Site here. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from harness.sites.site import Site

F = TypeVar("F", bound=Callable[..., Any])
PLACES = "FILE|FILE:HOSTS|slurm|lab|lab:FILE|vm"


class SiteType(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions of click
    """A Site, whose connections are closed when the command has ended. `local`: this machine may be one."""

    name = "inventory"

    def __init__(self, *, local: bool = False) -> None:
        self._local = local

    def convert(self, value: Any, _param: click.Parameter | None, ctx: click.Context | None) -> Site:
        from harness.sites.inventory import parse

        if not isinstance(value, str):
            found: Site = value
            return found
        site = parse(value, local=self._local)
        return site if ctx is None else ctx.with_resource(site)

    def shell_complete(self, ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        from harness.commands.values import inventories

        return inventories(ctx, incomplete)


def site_option(
    *,
    default: str | None = None,
    required: bool = False,
    local: bool = False,
    metavar: str = PLACES,
    text: str = "Which hosts to use.",
) -> Callable[[F], F]:
    """The option `--inventory`; the command has it as `site`."""
    given: dict[str, Any] = {} if required else {"default": default}  # a None counts as a value, and click is content
    return click.option(
        "--inventory",
        "site",
        type=SiteType(local=local),
        required=required,
        metavar=metavar,
        help=text,
        **given,
    )
