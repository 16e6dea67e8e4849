"""A run as JUnit, for CI servers: one test case for each check of each arm."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator

from chaos.analysis.model import Arm
from reports.reading.rundir import RunDir


def render(run: RunDir) -> str:
    """A suite an arm. An arm that did not do as expected fails, one that could not be judged is an error; checks that
    deviate in an arm that was expected to deviate are no failures."""
    root = ET.Element("testsuites", name=run.name)
    for arm in run.summary.arms:
        suite = ET.SubElement(root, "testsuite", name=f"{run.name}.{arm.name}")
        suite.extend(_cases(run.name, arm))
        count(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def count(suite: ET.Element) -> None:
    """Says in a suite how many of its cases there are, and what came of them."""
    suite.set("tests", str(len(suite)))
    for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{kind}"))))


def _cases(name: str, arm: Arm) -> Iterator[ET.Element]:
    whole = _case(name, arm, "as expected")
    said = f"expected {arm.expect}, {arm.verdict}"
    if arm.as_expected is None:
        ET.SubElement(whole, "error", message=f"could not be judged: {arm.verdict}")
    elif not arm.as_expected:
        ET.SubElement(whole, "failure", message=said)
    yield whole
    for run in arm.runs:
        for check in run.checks:
            case = _case(name, arm, f"run {run.run}: {check.name}")
            text = f"{check.value} {check.unit} (limit {check.bound})"
            if check.outcome == "void":
                ET.SubElement(case, "skipped", message=f"void: {'; '.join(run.void)}")
            elif check.outcome == "deviated" and arm.expect == "holds":
                ET.SubElement(case, "failure", message=text)
            else:
                ET.SubElement(case, "system-out").text = text
            yield case


def _case(name: str, arm: Arm, what: str) -> ET.Element:
    return ET.Element("testcase", classname=f"r2cc.{name}.{arm.name}", name=what)
