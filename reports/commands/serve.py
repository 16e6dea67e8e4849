"""`r2cc serve`: the store in a browser. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

import threading
from pathlib import Path

import click

from harness.commands.options import json_option, quiet_option
from harness.schemas import dumped
from reports.commands.runs import store_option


@click.command()
@store_option
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8017, help="The port to listen on; 0 takes any that is free."
)
@click.option(
    "--address", default="127.0.0.1", help="The address to listen on. With the default only this machine sees the page."
)
@json_option("Print the address as JSON.")
@quiet_option(given=False)
def serve(store: Path, port: int, address: str, as_json: bool) -> None:
    """Show the store's runs on a local page until Ctrl-C: list, search, compare, what runs now. Read-only.

    \b
    Examples:
      r2cc serve
      r2cc serve --store nightly --port 0
      ssh -L 8017:localhost:8017 login.example.org     # from elsewhere
    """
    from reports.serve.server import Serve, serving

    with serving(store, address, port) as where:
        click.echo(dumped(Serve(where)) if as_json else f"{where}   (Ctrl-C ends it)")
        threading.Event().wait()
