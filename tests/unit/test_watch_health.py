"""What a host's status files say of it, for people and for agents that drain nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harness.cli import cli
from harness.commands.health import health
from harness.schemas import problems
from harness.watch import drains
from harness.watch.status import read_folder
from tests.unit.watch_files import nic, status, write


def ask(folder: Path, *args: str) -> Result:
    return CliRunner().invoke(health, ["--status", str(folder), *args], standalone_mode=False)


def test_a_status_file_fits_its_schema() -> None:
    assert problems("status", status()) == []


@pytest.mark.parametrize(
    ("value", "verdict", "code", "says"),
    [
        (status(), "healthy", 0, "no NIC failed, 1 process"),
        (
            status(nic("eth0"), nic("eth2", "down")),
            "carried",
            1,
            "h1:eth2 down: carried by R2CC. Do not drain the node",
        ),
        (status(nic("eth0"), nic("eth2", "degraded")), "carried", 1, "h1:eth2 at 50 %: carried"),
        (status(nic("eth0"), nic("eth2", "draining")), "healthy", 0, "h1:eth2 draining"),
        (status(nic("eth0", "down"), connections={"held": 2}), "held", 4, "2 connections without any path"),
        (status(connections={"failed": 1, "held": 2}), "lost", 5, "1 connection lost for good"),
    ],
    ids=["whole", "down", "slow", "draining", "held", "lost"],
)
def test_a_verdict_is_a_word_a_line_and_an_exit_code(
    tmp_path: Path, value: dict[str, Any], verdict: str, code: int, says: str
) -> None:
    write(tmp_path, value)
    asked = ask(tmp_path)
    assert asked.return_value == code
    assert asked.stdout.startswith(f"{verdict}: ")
    assert says in asked.stdout
    found = json.loads(ask(tmp_path, "--json").stdout)
    assert problems("health", found) == []
    assert (found["verdict"], found["jobs"]) == (verdict, ["42"])


def test_a_nic_is_as_bad_as_its_worst_process_says(tmp_path: Path) -> None:
    write(tmp_path, status(nic("eth2", "down", since_unix_s=50.0), pid=8, job="43"), "a")
    write(tmp_path, status(nic("eth2")), "b")
    (only,) = json.loads(ask(tmp_path, "--json").stdout)["nics"]
    assert (only["state"], only["since_unix_s"], only["jobs"]) == ("down", 50.0, ["42", "43"])
    assert (only["connections_here"], only["connections_carried"]) == (2, 2)


def test_processes_that_ended_count_for_what_they_lost_alone(tmp_path: Path) -> None:
    write(tmp_path, status(nic("eth2", "down")), "stale", age_s=30)
    write(tmp_path, status(nic("eth2", "down"), ended=True), "ended")
    assert ask(tmp_path).return_value == 0
    write(tmp_path, status(totals={"connections_lost": 2}), "lost", age_s=30)
    assert ask(tmp_path).return_value == 5
    write(tmp_path, status(totals={"connections_lost": 2}), "lost", age_s=700)  # ten minutes later it is history
    assert ask(tmp_path).return_value == 0


def test_one_host_of_a_shared_folder(tmp_path: Path) -> None:
    write(tmp_path, status(nic("eth2", "down"), host="h1.site"), "a")
    write(tmp_path, status(host="h2"), "b")
    assert ask(tmp_path, "--host", "h1").return_value == 1
    assert ask(tmp_path, "--host", "h2").return_value == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"schema": 1, "host": "h', "a.json is no JSON"),
        ("", "a.json is no JSON"),
        (json.dumps(status() | {"schema": 2}), "written by a newer r2cc"),
        (json.dumps(status() | {"nics": "many"}), "nics: Input should be"),
        (json.dumps({"schema": 1}), "build: Field required"),
        ("[1]", "holds no JSON object"),
    ],
    ids=["cut short", "empty", "another version", "another form", "half", "a list"],
)
def test_a_file_that_cannot_be_read_is_one_line_and_hides_no_other(tmp_path: Path, text: str, says: str) -> None:
    write(tmp_path, text, "a")
    write(tmp_path, text, "c")
    write(tmp_path, status(nic("eth2", "down")), "b")
    asked = ask(tmp_path)
    assert asked.return_value == 1
    assert "h1:eth2 down" in asked.stdout
    assert asked.stderr.count("\n") == 1
    assert says in asked.stderr
    assert "and 1 more" in asked.stderr


def test_one_folder_may_hold_status_files_and_drains(tmp_path: Path) -> None:
    write(tmp_path, status())
    write(tmp_path, status(host="drain-1", pid=8), "drain-1-8-0123abcd")
    drains.drain(tmp_path, drains.Place("h1", "eth1"))
    found = read_folder(tmp_path)
    assert [each.host for each in found.live] == ["drain-1", "h1"] and found.problems == []
    assert drains.drains_in(tmp_path) == [drains.Place("h1", "eth1")]


def test_a_thousand_files_of_ended_processes_are_not_read(tmp_path: Path) -> None:
    for number in range(1000):
        write(tmp_path, "not read", f"old-{number}", age_s=3600)
    write(tmp_path, status())
    asked = ask(tmp_path)
    assert asked.return_value == 0
    assert asked.stderr.count("\n") == 1
    assert "1000 files of processes that ended long ago; to remove them: find " in asked.stderr


@pytest.mark.parametrize(
    ("name", "says"),
    [("none", "no such folder"), ("file", "Not a directory"), ("unreadable", "a status file could not be read")],
)
def test_what_cannot_be_read_is_neither_health_nor_a_problem_of_the_host(tmp_path: Path, name: str, says: str) -> None:
    """No job ran yet, or the folder is misspelt: such a node is not drained, and is not called healthy."""
    (tmp_path / "file").touch()
    (tmp_path / "unreadable").mkdir()
    write(tmp_path / "unreadable", "{")
    asked = ask(tmp_path / name)
    assert (asked.return_value, asked.stderr) == (0, "")
    assert asked.stdout.startswith(f"unknown: {tmp_path / name}: {says}")
    found = json.loads(ask(tmp_path / name, "--json").stdout)
    assert problems("health", found) == []
    assert (found["verdict"], found["problems"]) == ("unknown", [found["message"]])
    for agent, text in (("slurm", "R2CC unknown: "), ("npd", "R2CC unknown: "), ("nvrx", '{"failed_checks": []}')):
        told = ask(tmp_path / name, "--for", agent, "--problem", "carried")
        assert told.return_value == 0 and told.stdout.startswith(text) and says in told.stderr
    (condition,) = json.loads(ask(tmp_path / name, "--for", "condition").stdout)["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("Unknown", "NothingRead")
    event = json.loads(ask(tmp_path / name, "--for", "nvsentinel").stdout)
    assert (event["isHealthy"], event["recommendedAction"]) == (True, "NONE")


def test_a_folder_without_processes_is_healthy(tmp_path: Path) -> None:
    asked = ask(tmp_path)
    assert (asked.stdout, asked.return_value) == ("healthy: no NIC failed, 0 processes\n", 0)


@pytest.mark.parametrize("words", [["health"], ["metrics"], ["job-report", "--json"], ["drain", "h1:eth2"]])
def test_a_dot_is_the_current_folder_and_an_empty_word_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    left = status(nic("eth0"), nic("eth2", "draining", connections_here=0))  # a drain waits for nothing
    write(tmp_path, left)
    monkeypatch.chdir(tmp_path)
    folders = {"R2CC_STATUS_DIR": ".", "R2CC_CONTROL_DIR": "."}
    by_variable = CliRunner().invoke(cli, words, env=folders)
    write(tmp_path, left)  # still a fresh one
    by_option = CliRunner().invoke(cli, [*words, "--status", "."], env={"R2CC_CONTROL_DIR": "."})
    assert (by_variable.exit_code, by_option.exit_code) == (0, 0), by_option.output
    assert by_variable.stdout == by_option.stdout
    assert by_variable.stderr == by_option.stderr == ""  # the file there was found
    option = "--control" if words[0] == "drain" else "--status"
    assert "an empty word names no file" in CliRunner().invoke(cli, [*words, option, ""]).stderr
    unset = CliRunner().invoke(cli, words, env=dict.fromkeys(folders, ""))
    assert f"no folder is named: {option} DIR" in str(unset.exception)


def test_no_folder_is_bad_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("R2CC_STATUS_DIR", raising=False)
    asked = CliRunner().invoke(health, [], standalone_mode=False)
    assert "no folder is named: --status DIR, or R2CC_STATUS_DIR" in str(asked.exception)


@pytest.mark.parametrize("agent", ["slurm", "npd"])
def test_agents_that_read_a_line_and_a_code_drain_nothing_that_is_carried(tmp_path: Path, agent: str) -> None:
    write(tmp_path, status(nic("eth2", "down")))
    asked = ask(tmp_path, "--for", agent)
    assert (asked.return_value, asked.stdout.count("\n")) == (0, 1)
    assert asked.stdout.startswith("R2CC carried: h1:eth2 down")
    assert agent != "npd" or len(asked.stdout) <= 81
    assert ask(tmp_path, "--for", agent, "--problem", "carried").return_value == 1
    write(tmp_path, status(nic("eth2", "down"), connections={"held": 1}))
    assert ask(tmp_path, "--for", agent).return_value == 1


@pytest.mark.parametrize("state", ["held", "failed"])
def test_a_host_whose_peer_died_is_not_drained(tmp_path: Path, state: str) -> None:
    """One dead node would drain all others of its job."""
    write(tmp_path, status(nic("eth0"), nic("eth2"), connections={state: 3}))
    assert ask(tmp_path).return_value in (4, 5)
    assert [ask(tmp_path, "--for", agent).return_value for agent in ("slurm", "npd")] == [0, 0]
    event = json.loads(ask(tmp_path, "--for", "nvsentinel").stdout)
    assert (event["isHealthy"], event["isFatal"], event["recommendedAction"]) == (True, False, "NONE")
    (condition,) = json.loads(ask(tmp_path, "--for", "condition").stdout)["status"]["conditions"]
    assert condition["status"] == "False"
    assert json.loads(ask(tmp_path, "--for", "nvrx").stdout) == {"failed_checks": []}


def test_a_condition_patches_a_node(tmp_path: Path) -> None:
    write(tmp_path, status(nic("eth2", "down")))
    (condition,) = json.loads(ask(tmp_path, "--for", "condition").stdout)["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "R2ccNetworkProblem",
        "False",
        "CarriedByR2cc",
    )
    write(tmp_path, status(nic("eth2", "down"), connections={"held": 1}))
    (condition,) = json.loads(ask(tmp_path, "--for", "condition").stdout)["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "Held")


def test_nvsentinel_hears_of_a_fatal_event_only_where_the_job_stands(tmp_path: Path) -> None:
    write(tmp_path, status(nic("eth2", "down", device="mlx5_2")))
    event = json.loads(ask(tmp_path, "--for", "nvsentinel", "--host", "h1").stdout)
    assert (event["isHealthy"], event["isFatal"], event["recommendedAction"]) == (True, False, "NONE")
    assert event["entitiesImpacted"] == [{"entityType": "NIC", "entityValue": "mlx5_2"}]
    write(tmp_path, status(nic("eth2", "down"), connections={"failed": 1}))
    event = json.loads(ask(tmp_path, "--for", "nvsentinel", "--host", "h1").stdout)
    assert (event["isHealthy"], event["isFatal"], event["nodeName"]) == (False, True, "h1")


def test_nvrx_gets_a_list_of_failed_checks(tmp_path: Path) -> None:
    write(tmp_path, status(nic("eth2", "down")))
    assert json.loads(ask(tmp_path, "--for", "nvrx").stdout) == {"failed_checks": []}
    write(tmp_path, status(nic("eth2", "down"), connections={"held": 1}))
    assert json.loads(ask(tmp_path, "--for", "nvrx").stdout) == {"failed_checks": ["r2cc-net-held"]}
