"""`r2cc metrics`: status files for Prometheus."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.options import OutFile
from harness.commands.watched import folder_of, status_option
from harness.errors import UsageError

EVERY_S = 10
EXAMPLES = """\b
Examples:
  r2cc metrics --status /run/r2cc-status                          one look, printed
  r2cc metrics --status /run/r2cc-status --listen 9401            served at http://HOST:9401/metrics
  r2cc metrics --status /run/r2cc-status --textfile /var/lib/node_exporter/r2cc.prom
  r2cc metrics --status /run/r2cc-status --otlp http://collector:4318      pushed; needs r2cc[otel]
  r2cc metrics --rules > /etc/prometheus/rules/r2cc.yaml   alert rules
  r2cc metrics --dashboard > r2cc.json                     a dashboard for Grafana

\b
Exit codes: 0 done, 2 bad usage, or the port is in use; 3 with --otlp --once: the collector does not take them.
"""


@click.command(epilog=EXAMPLES)
@status_option
@click.option("--host", metavar="NAME", help="Only processes of this host, where several write into one folder.")
@click.option("--listen", type=click.IntRange(1, 65535), metavar="PORT", help="Serve them until Ctrl-C.")
@click.option("--address", default="0.0.0.0", show_default=True, help="With --listen: on this address of the host.")
@click.option(
    "--textfile", type=OutFile(in_folder=True), metavar="FILE",
    help=f"Write them there, whole, every {EVERY_S} s, until Ctrl-C. Its folder must be there.",
)  # fmt: skip
@click.option("--otlp", metavar="URL", help=f"Push them there by OTLP over HTTP, every {EVERY_S} s, until Ctrl-C.")
@click.option("--once", is_flag=True, help="With --textfile and --otlp: once.")
@click.option("--rules", is_flag=True, help="Print the alert rules, and nothing else.")
@click.option("--dashboard", is_flag=True, help="Print the dashboard, and nothing else.")
def metrics(
    *, status: Path | None, host: str | None, listen: int | None, address: str, textfile: Path | None, otlp: str | None,
    once: bool, rules: bool, dashboard: bool,
) -> int:  # fmt: skip
    """Give Prometheus what the R2CC processes of a host say of themselves (R2CC_STATUS_DIR)."""
    if rules or dashboard:
        click.echo(_shipped("alerts.yaml" if rules else "dashboard.json"), nl=False)
        return 0
    if sum(map(bool, (listen, textfile, otlp))) > 1:
        raise UsageError("--listen, --textfile and --otlp are ways for the same", "start it once for each")
    folder = folder_of(status)
    if listen:
        return _serve(folder, host, address, listen)
    if textfile:
        return _write(folder, host, textfile, once=once)
    if otlp:
        return _push(folder, host, otlp, once=once)
    from harness.watch.metrics import text_of

    click.echo(text_of(folder, host), nl=False)
    return 0


def _shipped(name: str) -> str:
    from importlib import resources

    return resources.files("harness.watch").joinpath("rules", name).read_text(encoding="utf-8")


def _serve(folder: Path, host: str | None, address: str, port: int) -> int:
    import time

    from prometheus_client import start_http_server

    from harness.watch.metrics import registry_of

    try:
        start_http_server(port, address, registry_of(folder, host))
    except OSError as error:
        hint = "is another `r2cc metrics` running here? --listen takes another port"
        raise UsageError(f"port {port} of {address} cannot be had: {error.strerror or error}", hint) from error
    click.echo(f"serving metrics of {folder} at http://{address}:{port}/metrics, until Ctrl-C", err=True)
    while True:
        time.sleep(3600)


def _write(folder: Path, host: str | None, path: Path, *, once: bool) -> int:
    import time

    from harness.files.writing import target_of, write_whole
    from harness.watch.metrics import text_of

    said = once
    while True:
        write_whole(path, text_of(folder, host))
        if (target := target_of(path)) is not None:  # a terminal or /dev/null keeps its mode
            target.chmod(0o644)
        if not said:
            _say_begun(f"writing metrics of {folder} to {path}")
            said = True
        if once:
            return 0
        time.sleep(EVERY_S)


def _say_begun(what: str) -> None:
    click.echo(f"{what} every {EVERY_S} s, until Ctrl-C", err=True)


def _push(folder: Path, host: str | None, url: str, *, once: bool) -> int:
    """A collector that is away for a while gets the next ones: they are all since each process began."""
    import logging
    import time

    from harness.errors import InfraError
    from harness.watch.otlp import Pusher

    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # what fails is said here, in one line
    pusher, failed = Pusher(url, folder, host), False
    if not once:
        _say_begun(f"pushing metrics of {folder} to {url}")
    while True:
        try:
            pusher.push()
            failed = False
        except InfraError as error:
            if once:
                raise
            if not failed:
                click.echo(f"r2cc: {error.message}; trying on", err=True)
            failed = True
        if once:
            pusher.close()
            return 0
        time.sleep(EVERY_S)
