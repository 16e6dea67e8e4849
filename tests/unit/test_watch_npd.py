"""node-problem-detector's custom plugin, as docs/howto/watch.md configures it: a stand-in of its contract runs it.

What it does with a plugin: starts `path args` within `timeout`, takes the first `max_output_length` characters (80) of
stdout as the message. Exit code 0 is no problem, 1 a problem, anything else unknown, which changes no condition.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from watch_files import nic, status, write

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "watch.md"
MOST = 80
LIMIT_S = 60.0
"""A busy machine's; the page says 10 s."""


def config() -> dict[str, Any]:
    (text,) = re.findall(r'```text\n(\{"plugin": "custom".*?)\n```', PAGE.read_text(), re.DOTALL)
    found: dict[str, Any] = json.loads(text)
    return found


def detected(folder: Path, *more: str) -> tuple[str, str]:
    """(status of the condition, its message) after one round."""
    plugin = config()
    (condition,), (rule,) = plugin["conditions"], plugin["rules"]
    assert (rule["type"], rule["condition"]) == ("permanent", condition["type"])
    program = Path(sys.executable).with_name(Path(rule["path"]).name)
    args = [str(folder) if each.startswith("/run/") else each for each in (*rule["args"], *more)]
    done = subprocess.run([program, *args], capture_output=True, text=True, timeout=LIMIT_S)
    message = done.stdout[:MOST].strip()
    assert "\n" not in message and len(done.stdout.strip()) <= MOST, "it would be cut in the middle"
    if done.returncode == 0:
        return "False", condition["message"]
    return ("True", message) if done.returncode == 1 else ("Unknown", message)


@pytest.mark.parametrize(
    ("value", "found", "says"),
    [
        (status(), "False", "whole or carried"),
        (status(nic("eth0", "down"), nic("eth1")), "False", "whole or carried"),
        (status(nic("eth0", "down"), connections={"held": 2}), "True", "R2CC held: 2 connections without any path"),
        (status(nic("eth0", "down"), connections={"failed": 1}), "True", "R2CC lost: 1 connection lost for good"),
    ],
)
def test_a_round(value: dict[str, Any], found: str, says: str, tmp_path: Path) -> None:
    write(tmp_path, value)
    state, message = detected(tmp_path)
    assert (state, says in message) == (found, True), message


def test_a_node_without_jobs_is_no_problem(tmp_path: Path) -> None:
    assert detected(tmp_path / "none")[0] == "False"


def test_what_is_unknown_changes_nothing(tmp_path: Path) -> None:
    assert detected(tmp_path, "--no-such-option")[0] == "Unknown"
