"""A job's report: failures once each, what they would have cost, files of all hosts gathered where they are safe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from watch_files import nic, status, write

from harness.cli import cli
from harness.commands.job_report import gpus_of_slurm
from harness.schemas import problems
from harness.watch.job import JobReport, judged
from harness.watch.job_text import markdown, sentence, text
from harness.watch.status import made

MINUTE = 60.0


def down(at: float, name: str = "eth1") -> dict[str, Any]:
    return {"at_unix_s": at, "nic": name, "state": "down"}


def up(at: float, name: str = "eth1") -> dict[str, Any]:
    return {"at_unix_s": at, "nic": name, "state": "up"}


def one(*events: dict[str, Any], host: str = "h1", **more: Any) -> dict[str, Any]:
    return status(host=host, events=[*events], ended=True, updated_unix_s=9000.0, **more)


def report(*found: dict[str, Any], minutes: float = 20.0, gpus: int | None = 16) -> JobReport:
    return judged("42", [made({k: v for k, v in each.items() if k != "schema"}) for each in found], minutes, gpus)


def test_a_failure_that_all_processes_of_a_host_saw_is_one() -> None:
    totals = {"failovers": {"netlink": 4}, "stalled_s": 0.041}
    eight = [one(down(2000.0 + index / 10), up(2030.0), pid=index + 1, totals=totals) for index in range(8)]
    found = report(*eight)
    assert (found.verdict, found.failures, found.restarts_avoided) == ("carried", 1, 1)
    assert found.failovers == {"netlink": 32}
    assert [(each.host, each.nic, each.failures, each.still_down) for each in found.nics] == [("h1", "eth1", 1, False)]
    assert found.gpu_hours_saved == pytest.approx(16 * 20 / 60, abs=0.01)
    assert "1 NIC failure carried, 41 ms lost; 5.33 GPU hours saved (1 restart of 20 min on 16 GPUs)" in sentence(found)


def test_a_flap_within_one_restart_saves_one_restart() -> None:
    flaps = [event for at in (2000.0, 2060.0, 2120.0) for event in (down(at), up(at + 5))]
    assert (report(one(*flaps)).failures, report(one(*flaps)).restarts_avoided) == (3, 1)
    assert report(one(*flaps), minutes=0.5).restarts_avoided == 3
    apart = [down(2000.0), up(2005.0), down(2000.0 + 25 * MINUTE), up(4000.0)]
    assert report(one(*apart)).restarts_avoided == 2


def test_a_nic_of_another_host_is_told_by_that_host_alone() -> None:
    """A peer knows it by its address."""
    own, peer = one(down(2000.0)), one(down(2000.2, "10.2.0.1"), host="h2")
    found = report(own, peer)
    assert (found.failures, found.hosts) == (1, ["h1", "h2"])
    assert found.nics[0].still_down and found.nics[0].down_s == 7000.0
    assert "h1:eth1 was down once, 7000 s in all; at the end it was still down" in text(found)


def test_more_events_than_a_file_keeps() -> None:
    """Its NIC is down, and the file does not say since which event."""
    assert report(one() | {"nics": [nic("eth0"), nic("eth1", "down")]}).failures == 1


def test_what_was_lost_saves_nothing() -> None:
    found = report(one(down(2000.0), totals={"connections_lost": 3}))
    assert (found.verdict, found.restarts_avoided, found.gpu_hours_saved) == ("lost", 0, 0.0)
    assert "3 connections lost for good: the job needed its own restart" in sentence(found)


def test_nothing_happened() -> None:
    assert report().verdict == "quiet"
    assert "nothing that R2CC had to carry" in text(report()) and "nothing" in markdown(report())


def test_without_gpus_no_hours() -> None:
    found = report(one(down(2000.0)), gpus=None)
    assert found.gpu_hours_saved is None and "--gpus N" in text(found)


@pytest.mark.parametrize(
    ("environment", "gpus"),
    [
        ({"SLURM_JOB_NODELIST": "n[1-4]", "SLURM_GPUS_ON_NODE": "8"}, 32),
        ({"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_GPUS": "0-3,6"}, 10),
        ({"SLURM_JOB_NODELIST": "n[1-2]"}, None),
        ({"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_GPUS_ON_NODE": "5", "SLURM_GPUS": "6"}, 6),
        ({"SLURM_NODELIST": "n[1-2]", "SLURM_GPUS_PER_NODE": "a100:4"}, 8),
        ({"SLURM_GPUS_ON_NODE": "8"}, None),
        ({"SLURM_JOB_NODELIST": "n[1-", "SLURM_GPUS_ON_NODE": "8"}, None),
    ],
)
def test_gpus_of_slurm(environment: dict[str, str], gpus: int | None) -> None:
    assert gpus_of_slurm(environment) == gpus


def run(*words: str, env: dict[str, str] | None = None) -> Any:
    return CliRunner().invoke(cli, ["job-report", *words], env=env)


def test_the_epilogs_of_two_hosts_make_one_report(tmp_path: Path) -> None:
    shared, others = tmp_path / "shared", status(job="43", host="h1", pid=9)
    shared.mkdir()
    for host in ("h1", "h2"):
        node = tmp_path / host
        node.mkdir()
        write(node, one(down(2000.0), host=host), name=f"{host}-7-0", age_s=7200)
        write(node, others, name="other")
        (node / "link.json").symlink_to("/etc/passwd")
        done = run("--status", str(node), "--into", str(shared), "--gpus", "8", env={"SLURM_JOB_ID": "42"})
        assert done.exit_code == 0, done.output
        assert {path.name for path in node.iterdir()} == {"other.json", "link.json"}
    said = run("--status", str(shared / "42"), "--json", "--gpus", "8")
    found = json.loads(said.stdout)
    assert problems("job_report", found) == []
    assert (found["failures"], found["hosts"], found["restarts_avoided"]) == (2, ["h1", "h2"], 1)
    assert "| h2:eth1 | 1 |" in (shared / "42" / "report.md").read_text()
    assert {path.suffix for path in (shared / "42").iterdir() if path.name[0] != "."} == {".json", ".md"}


def test_a_quiet_job_leaves_nothing(tmp_path: Path) -> None:
    write(tmp_path, status(job="43"))
    shared = tmp_path / "shared"
    shared.mkdir()
    done = run("--status", str(tmp_path), "--into", str(shared), env={"SLURM_JOB_ID": "42"})
    assert (done.exit_code, [*shared.iterdir()]) == (0, []), done.output


def test_a_shared_folder_that_is_not_mounted_is_not_made(tmp_path: Path) -> None:
    """The job's files would leave the node for a place where nobody looks."""
    write(tmp_path, one(down(2000.0)), name="h1-7-0", age_s=7200)
    done = run("--status", str(tmp_path), "--into", str(tmp_path / "shraed"), env={"SLURM_JOB_ID": "42"})
    assert (done.exit_code, "shraed' does not exist" in done.output) == (2, True), done.output
    assert [path.name for path in tmp_path.iterdir()] == ["h1-7-0.json"]


def test_bad_usage(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for words, says in (
        (["--status", str(tmp_path), "--into", str(tmp_path)], "cannot be the name of a job"),
        (["--status", str(tmp_path), "--job", "../x", "--into", str(tmp_path)], "cannot be the name of a job"),
        (["--status", str(tmp_path), "--json", "--markdown"], "two forms of the same"),
        ([], "no folder is named"),
    ):
        done = run(*words, env={"SLURM_JOB_ID": "", "R2CC_STATUS_DIR": ""})
        assert says in str(done.exception), done.output
    absent = run("--status", str(tmp_path / "absent"), "--job", "42")
    assert (absent.exit_code, "no such folder" in absent.output) == (0, True)
