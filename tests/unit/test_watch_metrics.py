"""Status files as Prometheus reads them; the alert rules and the dashboard, by Prometheus' own promtool."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from ports import free_port
from prometheus_client.parser import text_string_to_metric_families

from harness.commands.metrics import metrics
from harness.watch.metrics import text_of
from tests.unit.watch_files import nic, status, write

RULES = Path("harness/watch/rules")
WHO = {"job_id": "42", "host": "h1", "rank": "0", "pid": "7"}


def samples(folder: Path) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text_of(folder)):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def promtool(*args: str) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool (Debian's prometheus)")
    done = subprocess.run([program, *args], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_process_is_there_with_its_nics_and_counters(tmp_path: Path) -> None:
    totals = {
        "failovers": {"netlink": 2, "probe": 1, "the receiver lost the lane": 1}, "held_s": 1.5,
        "stalls": {"bounds_ms": [1, 10], "counts": [1, 2, 3], "sum_s": 0.5},
    }  # fmt: skip
    write(tmp_path, status(nic("eth0"), nic("eth2", "down"), totals=totals, connections={"held": 1}))
    found = samples(tmp_path)
    up = {labels["nic"]: value for labels, value in found["r2cc_nic_up"]}
    assert up == {"eth0": 1, "eth2": 0}
    assert found["r2cc_nic_capacity_ratio"][1] == (WHO | {"nic": "eth2"}, 0)
    assert (WHO | {"nic": "eth0", "direction": "receive"}, 20) in found["r2cc_nic_bytes_total"]
    assert {labels["cause"]: value for labels, value in found["r2cc_failovers_total"]} == {
        "link_down": 2, "silence": 1, "the_receiver_lost_the_lane": 1,
    }  # fmt: skip
    assert found["r2cc_held_seconds_total"] == [(WHO, 1.5)]
    assert (WHO | {"state": "held"}, 1) in found["r2cc_connections"]
    assert [(labels["le"], value) for labels, value in found["r2cc_stall_seconds_bucket"]] == [
        ("0.001", 1), ("0.01", 3), ("+Inf", 6),
    ]  # fmt: skip
    assert found["r2cc_stall_seconds_sum"] == [(WHO, 0.5)]
    assert (WHO | {"reason": "stranger"}, 3) in found["r2cc_dropped_datagrams_total"]
    assert found["r2cc_processes"] == [({}, 1)]


def test_a_process_that_ended_is_gone(tmp_path: Path) -> None:
    write(tmp_path, status(), age_s=30)
    found = samples(tmp_path)
    assert "r2cc_nic_up" not in found
    assert found["r2cc_processes"] == [({}, 0)]


def test_names_and_types_are_what_prometheus_wants(tmp_path: Path) -> None:
    totals = {"failovers": {"netlink": 2}}
    write(tmp_path, status(totals=totals))
    text = tmp_path / "text"
    text.write_text(text_of(tmp_path))
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool (Debian's prometheus)")
    with text.open() as stdin:
        done = subprocess.run([program, "check", "metrics"], stdin=stdin, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_rules_and_fire_as_they_should() -> None:
    assert "7 rules found" in promtool("check", "rules", str(RULES / "alerts.yaml"))
    assert "SUCCESS" in promtool("test", "rules", "tests/data/prometheus/alerts_test.yaml")


def test_rules_and_dashboard_ask_for_what_there_is(tmp_path: Path) -> None:
    totals = {"failovers": {"netlink": 1}}
    write(tmp_path, status(totals=totals))
    names = set(samples(tmp_path))
    asked = CliRunner().invoke(metrics, ["--rules"]).stdout + CliRunner().invoke(metrics, ["--dashboard"]).stdout
    wanted = set(re.findall(r"r2cc_[a-z_]+(?=[{\[)\s])", asked))
    assert len(wanted) > 8
    assert wanted <= names
    assert json.loads(CliRunner().invoke(metrics, ["--dashboard"]).stdout)["title"] == "R2CC"


def test_a_textfile_is_written_whole_for_all_to_read(tmp_path: Path) -> None:
    write(tmp_path, status())
    out = tmp_path / "r2cc.prom"
    done = CliRunner().invoke(metrics, ["--status", str(tmp_path), "--textfile", str(out), "--once"])
    assert done.exit_code == 0, done.output
    assert "r2cc_processes 1.0" in out.read_text()
    assert out.stat().st_mode & 0o777 == 0o644


def test_what_is_no_file_of_ours_keeps_its_mode(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As root /dev/null would be nobody else's any more."""
    write(tmp_path, status())
    before = os.fstat(1).st_mode
    assert before & 0o777 != 0o644
    done = CliRunner().invoke(metrics, ["--status", str(tmp_path), "--textfile", "/dev/stdout", "--once"])
    assert (done.exit_code, os.fstat(1).st_mode) == (0, before), done.output
    assert "r2cc_processes 1.0" in capfd.readouterr().out


def test_a_second_server_on_one_port_says_so(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        args = ["--status", str(tmp_path), "--listen", port, "--address", "127.0.0.1"]
        done = CliRunner().invoke(metrics, args, standalone_mode=False)
    assert f"port {port} of 127.0.0.1 cannot be had: Address already in use" in str(done.exception)
    assert "is another `r2cc metrics` running here?" in str(done.exception)


@pytest.mark.parametrize("way", ["--listen", "--textfile", "--otlp"])
def test_what_goes_on_for_long_says_at_once_what_it_does(tmp_path: Path, way: str) -> None:
    """Once, on stderr: what, where, how often. SIGTERM ends it as Ctrl-C does."""
    write(tmp_path, status())
    port = free_port()
    prom = tmp_path / "r2cc.prom"
    words, said = {
        "--listen": (
            [str(port), "--address", "127.0.0.1"],
            f"serving metrics of {tmp_path} at http://127.0.0.1:{port}",
        ),
        "--textfile": ([str(prom)], f"writing metrics of {tmp_path} to {prom} every 10 s"),
        "--otlp": (
            [f"http://127.0.0.1:{port}"],
            f"pushing metrics of {tmp_path} to http://127.0.0.1:{port} every 10 s",
        ),
    }[way]
    code = "from harness.cli import main; main()"
    argv = [sys.executable, "-c", code, "metrics", "--status", str(tmp_path), way, *words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as runs:
        try:
            assert runs.stderr is not None
            first = runs.stderr.readline()
            assert first.startswith(said) and first.endswith(", until Ctrl-C\n")
            assert way != "--textfile" or "r2cc_processes 1.0" in prom.read_text()
            runs.terminate()
            out, rest = runs.communicate(timeout=60)
        finally:
            runs.kill()
    assert (runs.returncode, out) == (130, "")
    assert "metrics of" not in rest and rest.endswith("r2cc: interrupted\n")
