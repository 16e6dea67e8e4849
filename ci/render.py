"""What a pull request and a CI server are told of a judgement: Markdown and JUnit."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any

SIGNS = {"passed": "✓", "recorded": "✓", "regressed": "✗", "not judged": "?"}


def markdown(judged: Mapping[str, Any]) -> str:
    """From a judgement's JSON (ci_gate.schema.json)."""
    lines = [f"### {SIGNS[judged['outcome']]} R2CC gate: {judged['outcome']}", ""]
    lines += [f"- {reason}" for reason in judged["reasons"]]
    if judged["series"]:
        lines += ["", "| series | outcome | change | 95 % | p |", "|---|---|---|---|---|"]
        lines += [_row(line) for line in judged["series"]]
    return "\n".join(lines) + "\n"


def _row(line: Mapping[str, Any]) -> str:
    if line["ratio"] is None:
        return f"| {line['name']} | {line['outcome']} | | | |"
    change, low, high = ((line[key] - 1) * 100 for key in ("ratio", "low", "high"))
    return f"| {line['name']} | {line['outcome']} | {change:+.1f} % | {low:+.1f}..{high:+.1f} % | {line['p']:.2g} |"


def junit(judged: Mapping[str, Any]) -> str:
    """One test case a series, and one for the gate itself when it could not judge."""
    cases = [(line["name"], line) for line in judged["series"]]
    suite = ET.Element("testsuite", name="r2cc gate")
    failures = skipped = errors = 0
    for name, line in cases:
        case = ET.SubElement(suite, "testcase", classname="r2cc.gate", name=name)
        if line["outcome"] == "worse":
            failures += 1
            ET.SubElement(case, "failure", message=line["text"])
        elif line["outcome"] in ("in quarantine", "too short", "no run"):
            skipped += 1
            ET.SubElement(case, "skipped", message=line["text"])
    if judged["outcome"] == "not judged":
        errors += 1
        case = ET.SubElement(suite, "testcase", classname="r2cc.gate", name="judged")
        ET.SubElement(case, "error", message="; ".join(judged["reasons"]))
    counts = {"tests": len(suite), "failures": failures, "errors": errors, "skipped": skipped}
    suite.attrib.update({name: str(count) for name, count in counts.items()})
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
