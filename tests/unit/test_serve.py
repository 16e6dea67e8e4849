"""The local page over the store: what it shows, and what it refuses."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness.errors import UsageError
from reports.serve.pages import page
from reports.serve.server import serving
from reports.store import entry

HOSTILE = "<script>alert(1)</script>"


def _run(store: Path, name: str, factor: float = 1.0, **changes: object) -> Path:
    moved = {"h0": {"eth0": {"tx_bytes": 10}, "eth1": {"tx_bytes": 20}}}
    runs = [
        {"run": n, "healthy_ms": {"median": (100 + n) * factor}, "faults": [], "metrics": [], "bytes_per_nic": moved}
        for n in range(6)
    ]
    summary = {
        "experiment": "nic_down",
        "verdict": "holds",
        "bed": "lab",
        "hardware": {"fingerprint": "f"},
        "build_id": "b",
    }
    folder = store / name
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(
        json.dumps({**summary, **changes, "arms": [{"name": "migrate", "runs": runs}]})
    )
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    _run(tmp_path, "20260101T000000Z-a")
    entry.write_tags(_run(tmp_path, "20260102T000000Z-b", factor=1.2), {"after"})
    (tmp_path / "20260102T000000Z-b" / "report.html").write_text("<p>the report</p>")
    return tmp_path


def _text(store: Path, path: str, **query: list[str]) -> str:
    found = page(store, path, query)
    assert found.status == 200
    assert "default-src 'none'" in found.policy
    return found.content.decode()


def test_runs_are_listed_and_searched(store: Path) -> None:
    shown = _text(store, "/")
    assert shown.index("20260102T000000Z-b") < shown.index("20260101T000000Z-a")
    assert "2 of 2 runs" in shown
    assert "20260101T000000Z-a" not in _text(store, "/", tag=["after"])
    assert "No run is like that; the store has 2." in _text(store, "/", experiment=["flap*"])


def test_a_run_its_report_and_what_is_not_there(store: Path) -> None:
    shown = _text(store, "/run/20260102T000000Z-b")
    assert 'href="/run/20260102T000000Z-b/report.html"' in shown
    assert "healthy_ms" in shown
    report = page(store, "/run/20260102T000000Z-b/report.html", {})
    assert (report.status, report.content) == (200, b"<p>the report</p>")
    for path in (
        "/run/20260101T000000Z-a/report.html",
        "/run/20260102",
        "/run/../x",
        "/run/x/y/z",
        "/etc/passwd",
        "/run/",
    ):
        assert page(store, path, {}).status == 404
    (store / "20260102T000000Z-b" / "secret.txt").write_text("x")
    assert page(store, "/run/20260102T000000Z-b/secret.txt", {}).status == 404


def test_a_run_that_goes_on_is_shown_as_it_is(store: Path) -> None:
    folder = store / "20260103T000000Z-live"
    folder.mkdir()
    lines = [
        {"event": "fault", "host": "h1", "id": "cable", "kind": "link_down", "nic": "eth2", "phase": "injected"},
        {"event": "iteration", "host": "h0", "index": 7, "wrong_elements": 0},
        {"event": "log", "host": "h0", "message": HOSTILE},
        {"event": "sample", "host": "h0"},
    ]
    (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"cut')
    now = (folder / "journal.jsonl").stat().st_mtime
    shown = page(store, "/run/20260103T000000Z-live", {}, now + 1).content.decode()
    assert '<meta http-equiv="refresh" content="2">' in shown
    assert "h1: cable link_down eth2 injected\nh0: iteration 7, 0 wrong elements" in shown
    assert HOSTILE not in shown
    assert "running" in page(store, "/", {}, now + 1).content.decode()
    later = page(store, "/run/20260103T000000Z-live", {}, now + 100).content.decode()
    assert "refresh" not in later.partition("<style>")[0]
    assert "unfinished" in later


def test_comparing(store: Path) -> None:
    shown = _text(store, "/compare", run=["20260101T000000Z-a", "20260102T000000Z-b"])
    assert "<strong>worse</strong>" in shown
    assert "+20.0 %" in shown
    assert "What each NIC sent" in shown and "h0/eth1" in shown
    for runs in (
        [],
        ["20260101T000000Z-a"],
        ["nothing", "20260101T000000Z-a"],
        ["x"] * 9,
        [str(store / "20260101T000000Z-a")] * 2,
    ):
        found = page(store, "/compare", {"run": runs})
        assert found.status == 400
        assert b"cannot be shown" in found.content


def test_a_figures_history_has_its_lasting_changes(tmp_path: Path) -> None:
    for day in range(1, 25):
        _run(tmp_path, f"202601{day:02}T000000Z-x", factor=(1.0 if day <= 12 else 1.1) * (1 + 0.001 * (day * 7 % 5)))
    _run(tmp_path, "20250101T000000Z-x", factor=9.0, hardware={"fingerprint": "other"})
    shown = _text(tmp_path, "/history", experiment=["nic_down"], arm=["migrate"], figure=["healthy_ms"])
    assert "since 20260113T000000Z-x" in shown
    assert "<svg" in shown and "24 runs" in shown
    assert "20250101" not in shown
    assert 'href="/history?experiment=nic_down&amp;arm=migrate&amp;figure=healthy_ms"' in _text(
        tmp_path, "/run/20260113T000000Z-x"
    )
    assert page(tmp_path, "/history", {"experiment": ["none"]}).status == 404
    assert page(tmp_path, "/history", {"size": ["x"]}).status == 400


def test_what_a_run_says_is_never_markup(store: Path) -> None:
    _run(store, "20260104T000000Z-c", experiment=HOSTILE, bed=HOSTILE, build_id=HOSTILE, verdict=HOSTILE)
    for path in ("/", "/run/20260104T000000Z-c"):
        assert HOSTILE not in _text(store, path)
    assert HOSTILE not in _text(store, "/", experiment=[HOSTILE])


@pytest.fixture
def address(store: Path) -> Iterator[str]:
    with serving(store) as where:
        yield where


def _ask(address: str, method: str, path: str, host: str | None = None) -> tuple[int, bytes, str]:
    place = urlsplit(address).netloc
    link = http.client.HTTPConnection(place, timeout=10)
    try:
        link.request(method, path, headers={"Host": host or place})
        answer = link.getresponse()
        return answer.status, answer.read(), answer.headers.get("Content-Security-Policy", "")
    finally:
        link.close()


def test_it_is_served_to_this_machine_alone(address: str) -> None:
    status, content, policy = _ask(address, "GET", "/")
    assert (status, b"20260101T000000Z-a" in content) == (200, True)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert _ask(address, "HEAD", "/")[:2] == (200, b"")
    assert _ask(address, "GET", "/", host="evil.example")[0] == 403
    assert _ask(address, "POST", "/")[0] == 501
    assert _ask(address, "GET", "/?" + "a=1&" * 2000)[0] == 414
    assert _ask(address, "GET", "/?" + "a=1&" * 100)[0] == 400
    assert urlsplit(address).hostname == "127.0.0.1"


def test_what_cannot_be_served(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run store"), serving(tmp_path / "none"):
        pass
    with (
        serving(tmp_path) as first,
        pytest.raises(UsageError, match="cannot serve"),
        serving(tmp_path, port=urlsplit(first).port or 0),
    ):
        pass
