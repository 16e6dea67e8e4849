"""The HTML report: one file that needs nothing else, asks nobody, and runs no script."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from harness.units import nth
from reports.formats import view
from reports.reading.rundir import RunDir
from reports.words import bytes_table, names, units

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parents[1] / "templates"


def render(run: RunDir, link_prefix: str = "") -> str:
    """The whole page. `link_prefix` leads from where the page is written to the run directory."""
    traces = view.shown_traces(run)
    tables = view.bytes_tables(run, traces)
    return page(
        "report.html.j2",
        v=view.build(run),
        figures=view.figures(run, traces, tables),
        traces=traces,
        repeats={name: len(run.traces_of(name)) for name in run.arm_names()},
        tables=tables,
        event_rows=view.event_rows,
        environment=view.environment(run),
        files=run.raw_files(),
        link_prefix=link_prefix,
        hidden_hosts=_hidden_hosts(run),
    )


def page(template: str, *styles: str, **values: Any) -> str:
    """A page of `templates/` with its styles in it: those of all reports, and these files' besides."""
    from markupsafe import Markup

    css = css_of(*styles)
    return _environment().get_template(template).render(css=Markup(css), policy=policy(css), **values)


@cache
def css_of(*styles: str) -> str:
    """That of all reports, and of these files besides."""
    return "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", *styles))


def glue(text: str) -> str:
    """Text in which no line breaks between a figure and its unit."""
    return re.sub(r"(\d) (ms|s|Gbit/s|[kMG]?B|[KMG]iB)\b", "\\1\u00a0\\2", text)


def _hidden_hosts(run: RunDir) -> list[str]:
    """Hosts without a fault, which tables show behind a fold; none when no host had one."""
    faulted = {nic.host for nic in run.faulted()}
    hosts = sorted({nic.host for trace in run.traces for nic in trace.samples})
    return [host for host in hosts if host not in faulted] if faulted & set(hosts) else []


def policy(css: str) -> str:
    """The page's content security policy: nothing may load, and only this style sheet may apply."""
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    env = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(
        glue=glue,
        path=lambda word: quote(str(word), safe=""),
        ms=units.ms,
        size=units.size,
        gbit=units.gbit,
        arm=names.arm,
        arm_class=names.arm_class,
        icon=names.icon,
        verdict=names.verdict,
    )
    env.filters["svg"] = Markup  # our own SVG; every text in it was escaped by reports.charts.svg
    env.globals.update(peak_gbit=bytes_table.peak_gbit, nth=nth)
    return env
