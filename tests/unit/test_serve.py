"""The local page over the store: what it shows, and what it refuses."""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from harness.errors import UsageError
from reports.serve import pages
from reports.serve.pages import page
from reports.serve.server import serving
from reports.store import tags
from reports.store.store import opened

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
    tags.write_tags(_run(tmp_path, "20260102T000000Z-b", factor=1.2), {"after"})
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
        [str(store.parent / "elsewhere" / "20260101T000000Z-a")] * 2,
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
    link = http.client.HTTPConnection(place, timeout=60)
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


@pytest.mark.parametrize("name", ["report.md", "report.html", "summary.json"])
@pytest.mark.parametrize("kind", ["outside", "beside", "loop", "pipe", "folder"])
def test_nothing_but_a_file_of_the_run_itself_is_shown(store: Path, tmp_path: Path, name: str, kind: str) -> None:
    folder, outside = store / "20260102T000000Z-b", tmp_path.parent / "secret"
    outside.write_text("secret")
    (folder / name).unlink(missing_ok=True)
    targets = {"outside": outside, "beside": store / "20260101T000000Z-a" / "summary.json", "loop": folder / name}
    if kind in targets:
        (folder / name).symlink_to(targets[kind])
    else:
        (os.mkfifo if kind == "pipe" else os.mkdir)(folder / name)
    assert page(store, f"/run/{folder.name}/{name}", {}).status == 404
    assert f'/{name}"' not in _text(store, f"/run/{folder.name}")


def test_a_report_that_is_too_large_is_said_to_be(store: Path) -> None:
    with (store / "20260102T000000Z-b" / "report.html").open("ab") as file:
        file.truncate(1 << 40)
    found = page(store, "/run/20260102T000000Z-b/report.html", {})
    assert (found.status, b"report.html is larger than 64 MiB" in found.content) == (400, True)


def test_a_journal_of_a_running_run_may_be_anything(store: Path) -> None:
    for number, spoil in enumerate((os.mkfifo, os.mkdir)):
        folder = store / f"2026020{number + 1}T000000Z-x"
        folder.mkdir()
        spoil(folder / "journal.jsonl")
        assert page(store, f"/run/{folder.name}", {}).status == 200
    folder = store / "20260203T000000Z-x"
    folder.mkdir()
    lines = ["[" * 1000, '{"event": "log", "host": "h", "message": "\\ud800"}', "\xff"]
    lines += ['{"event": "log", "host": "h", "message": "\\u001b[2Jseen"}']
    (folder / "journal.jsonl").write_bytes("\n".join(lines).encode("latin-1"))
    shown = _text(store, f"/run/{folder.name}")
    assert "h:  [2Jseen" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("size", ["9" * 30, "²", "-1", "0x10"])
def test_sizes_that_are_none(store: Path, size: str) -> None:
    query = {"experiment": ["nic_down"], "arm": ["migrate"], "figure": ["healthy_ms"], "size": [size]}
    assert page(store, "/history", query).status == 400


def test_a_page_is_made_once_until_something_changes(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reports.serve import shelf as shelves

    monkeypatch.setattr(shelves, "PATIENCE_S", 0.0)
    made: list[str] = []
    whole = pages._rendered
    monkeypatch.setattr(
        pages, "_rendered", lambda template, **values: made.append(template) or whole(template, **values)
    )
    query = {"run": ["20260101T000000Z-a", "20260102T000000Z-b"]}
    with shelves.shelf(store) as shelf:
        for _ in range(3):
            assert pages.answer(shelf, "/compare", query).status == 200
            assert pages.answer(shelf, "/", {}).status == 200
        assert made == ["compare.html.j2", "list.html.j2"]
        tags.write_tags(store / "20260101T000000Z-a", {"changed"})
        assert b"changed" in pages.answer(shelf, "/", {}).content
        with opened(store) as other:  # another process may have read it into the index first
            other.tag("20260102T000000Z-b", ["elsewhere"])
        assert b"elsewhere" in pages.answer(shelf, "/", {}).content
    assert made == ["compare.html.j2", *["list.html.j2"] * 3]


def test_the_folder_is_looked_at_once_for_many(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reports.serve import shelf as shelves
    from reports.store import store as stores

    monkeypatch.setattr(shelves, "PATIENCE_S", 3600.0)
    looks: list[Path] = []
    whole = stores._runs_in
    monkeypatch.setattr(stores, "_runs_in", lambda folder: looks.append(folder) or whole(folder))
    with shelves.shelf(store) as shelf:
        for path in ("/", "/run/20260101T000000Z-a", "/", "/run/none"):
            pages.answer(shelf, path, {})
    assert len(looks) == 1


def test_many_at_once(store: Path) -> None:
    """How long they wait is benchmarks/serve_load.py's."""
    asked = ["", "run/20260101T000000Z-a", "compare?run=20260101T000000Z-a&run=20260102T000000Z-b", "?tag=after"] * 15
    statuses: list[int] = []

    def ask(address: str, path: str) -> None:
        with urlopen(address + path, timeout=60) as answer:
            answer.read()
            statuses.append(answer.status)

    with serving(store) as address:
        threads = [threading.Thread(target=ask, args=(address, path)) for path in asked]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == [200] * len(asked)
