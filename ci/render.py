"""What a pull request and a CI server are told of a judgement: Markdown and JUnit."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from ci.gate import Judgement, Line
from reports.formats.junit import count

SIGNS = {"passed": "✓", "recorded": "✓", "regressed": "✗", "not judged": "?"}


def markdown(judged: Judgement) -> str:
    lines = [f"### {SIGNS[judged.outcome]} R2CC gate: {judged.outcome}", ""]
    lines += [f"- {reason}" for reason in judged.reasons]
    if judged.series:
        lines += ["", "| series | outcome | change | 95 % | p |", "|---|---|---|---|---|"]
        lines += [_row(line) for line in judged.series]
    return "\n".join(lines) + "\n"


def _row(line: Line) -> str:
    if line.ratio is None or line.low is None or line.high is None:
        return f"| {line.name} | {line.outcome} | | | |"
    change, low, high = ((value - 1) * 100 for value in (line.ratio, line.low, line.high))
    return f"| {line.name} | {line.outcome} | {change:+.1f} % | {low:+.1f}..{high:+.1f} % | {line.p:.2g} |"


def junit(judged: Judgement) -> str:
    """One test case a series, and one for the gate itself when it could not judge."""
    suite = ET.Element("testsuite", name="r2cc gate")
    for line in judged.series:
        case = ET.SubElement(suite, "testcase", classname="r2cc.gate", name=line.name)
        if line.outcome == "worse":
            ET.SubElement(case, "failure", message=line.text)
        elif line.outcome in ("in quarantine", "too short", "no run"):
            ET.SubElement(case, "skipped", message=line.text)
    if judged.outcome == "not judged":
        case = ET.SubElement(suite, "testcase", classname="r2cc.gate", name="judged")
        ET.SubElement(case, "error", message="; ".join(judged.reasons))
    count(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
