"""A job's report for people: as text, and as Markdown. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator

from harness.watch.job import JobReport, NicStory


def text(report: JobReport) -> str:
    return "\n".join([sentence(report), *(f"  {line}" for line in _facts(report))])


def markdown(report: JobReport) -> str:
    lines = [f"## R2CC: job {report.job or '?'}", "", sentence(report), ""]
    if report.nics:
        lines += ["| NIC | failures | down | at the end |", "|---|---|---|---|"]
        lines += [f"| {_cell(f'{n.host}:{n.nic}')} | {n.failures} | {n.down_s:g} s | {_end(n)} |" for n in report.nics]
        lines.append("")
    lines += [f"- {line}" for line in _facts(report, nics=False)]
    return "\n".join(lines).rstrip()


def sentence(report: JobReport) -> str:
    """What people read, even where they read nothing else."""
    of = f"job {report.job}: " if report.job else ""
    if report.verdict == "quiet":
        return f"{of}nothing that R2CC had to carry. It leaves no file then; nor does it where it was not in the path"
    what = f"{report.failures} NIC failure{'' if report.failures == 1 else 's'}"
    if report.verdict == "lost":
        lost = f"{report.connections_lost} connection{'' if report.connections_lost == 1 else 's'}"
        return f"{of}{what}, {lost} lost for good: the job needed its own restart"
    return f"{of}{what} carried, {_ms(report.stood_still_s)} lost{_saved(report)}"


def _saved(report: JobReport) -> str:
    if report.gpu_hours_saved is None or not report.restarts_avoided:
        return ""
    times = f"{report.restarts_avoided} restart{'' if report.restarts_avoided == 1 else 's'}"
    how = f"{times} of {report.restart_minutes:g} min on {report.gpus} GPUs"
    return f"; {report.gpu_hours_saved:g} GPU hours saved ({how})"


def _facts(report: JobReport, *, nics: bool = True) -> Iterator[str]:
    for nic in report.nics if nics else ():
        times = "once" if nic.failures == 1 else f"{nic.failures} times"
        yield f"{nic.host}:{nic.nic} was down {times}, {nic.down_s:g} s in all; at the end it was {_end(nic)}"
    if report.failovers:
        causes = ", ".join(f"{count} by {cause}" for cause, count in report.failovers.items())
        yield f"connections that moved: {causes}; back: {report.failbacks}"
    if report.held_s:
        yield f"some connection had no path for {report.held_s:g} s and was held"
    if report.began_unix_s is not None and report.ended_unix_s is not None:
        yield f"from {_time(report.began_unix_s)} to {_time(report.ended_unix_s)}, hosts: {', '.join(report.hosts)}"
    if report.gpus is None and report.restarts_avoided:
        yield "say --gpus N, and it says what that saved"


def _end(nic: NicStory) -> str:
    return "still down" if nic.still_down else "up"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 10 else f"{seconds:.1f} s"


def _time(unix_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix_s))


def _cell(words: str) -> str:
    return words.replace("|", "\\|")
