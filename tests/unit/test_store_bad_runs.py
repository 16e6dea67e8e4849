"""One bad run directory never takes anything else of a store down: it is listed as unreadable, with its reason."""

from __future__ import annotations

import json
import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bad_runs
import pytest
from bad_runs import BAD, NAME, VALUES, good, make, places, summary
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ci.commands import ci
from harness.errors import UsageError
from reports.commands.compare import compare
from reports.commands.runs import runs
from reports.serve.pages import page
from reports.store import entry, names, prune
from reports.store.store import opened

FIRST, SECOND = "20260101T000000Z-rail_down", "20260102T000000Z-rail_down"
POLICY = """
schema: 1
series:
  - {experiment: rail_down, arm: migrate, figure: healthy_ms}
fewest_runs: 4
"""


def _said(group: Any, *words: str) -> Result:
    result = CliRunner().invoke(group, [*words])
    assert result.exception is None or isinstance(result.exception, SystemExit), (words, result.exception)
    assert "\x1b" not in result.output
    return result


def _store(folder: Path) -> Path:
    good(folder, FIRST)
    good(folder, SECOND, build_id="b8")
    return folder


def _all_else_works(store: Path) -> dict[str, Any]:
    """Every command over the store, with the two good runs; the bad one as it is listed."""
    at = ("--store", str(store))
    listed = {run["id"]: run for run in json.loads(_said(runs, "list", "--json", *at).stdout)["runs"]}
    assert (listed.pop(FIRST)["verdict"], listed.pop(SECOND)["verdict"]) == ("holds", "holds")
    assert FIRST in _said(runs, "list", *at).stdout
    assert "healthy_ms" in _said(runs, "show", FIRST, *at).stdout
    assert _said(runs, "tag", FIRST, "kept", *at).exit_code == 0
    assert SECOND in _said(runs, "prune", "--keep", "0", "--older-than", "1h", "--dry-run", *at).stdout
    assert SECOND in _said(compare, FIRST, SECOND, *at).stdout
    for path, query in (("/", {}), (f"/run/{FIRST}", {}), ("/compare", {"run": [FIRST, SECOND]})):
        assert page(store, path, query).status == 200
    (bad,) = listed.values()
    return dict(bad)


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_run_is_listed_with_its_reason_and_spoils_nothing(tmp_path: Path, kind: str) -> None:
    make_bad, reason = BAD[kind]
    store = _store(tmp_path / "runs")
    folder = make_bad(store)
    bad = _all_else_works(store)
    assert bad["verdict"] == "unreadable"
    assert reason in bad["reason"]
    assert names.name_of(bad["id"]) == folder.name
    warned = _said(runs, "list", "--store", str(store)).stderr
    assert f"r2cc: warning: {bad['id']} cannot be read: " in warned
    assert "unreadable" in _said(runs, "show", bad["id"], "--store", str(store)).stdout
    shown = page(store, "/run/" + bad["id"], {})
    assert (shown.status, "cannot be read" in shown.content.decode()) == (200, True)


@pytest.mark.parametrize("kind", ["schema 99", "summary is a pipe", "not UTF-8 name", "tags is null"])
def test_the_gate_works_beside_it(tmp_path: Path, kind: str) -> None:
    store = tmp_path / "runs"
    ids = [f"202601{day:02}T000000Z-rail_down" for day in range(1, 5)]
    for run in ids:
        good(store, run)
    BAD[kind][0](store)
    (tmp_path / "policy.yaml").write_text(POLICY)
    at = ("--store", str(store), "--policy", str(tmp_path / "policy.yaml"))
    assert _said(ci, "baseline", "record", *ids[:2], "--store", str(store)).exit_code == 0
    judged = _said(ci, "gate", *ids[2:], *at)
    assert (judged.exit_code, judged.stdout.splitlines()[0]) == (0, "passed")
    assert _said(ci, "gate", "--history", *at).exit_code == 0


def test_a_bad_run_that_is_asked_for_says_why(tmp_path: Path) -> None:
    store = _store(tmp_path)
    bad_runs.spoiled(schema=99)(store)
    said = _said(compare, FIRST, NAME, "--store", str(store)).stdout
    assert "it is unreadable (summary.json is of another version: it was written by a newer r2cc" in said
    tagged = _said(runs, "tag", NAME, "kept", "--store", str(store))
    assert tagged.output == f"{NAME}: kept\n"


def test_tags_that_cannot_be_read_are_not_written_over(tmp_path: Path) -> None:
    folder = BAD["tags is 5"][0](_store(tmp_path))
    before = (folder / "tags.json").read_bytes()
    with pytest.raises(UsageError, match=r"tags\.json: tags"), opened(tmp_path) as store:
        store.tag(folder.name, ["x"])
    assert (folder / "tags.json").read_bytes() == before


def test_it_is_read_again_once_it_is_mended(tmp_path: Path) -> None:
    folder = BAD["environment is a pipe"][0](tmp_path)
    with opened(tmp_path) as store:
        assert store.find(folder.name).verdict == "unreadable"
        (folder / "environment.json").unlink()
        (folder / "environment.json").write_text('{"schema": 1, "source": "megatron"}')
        assert (store.find(folder.name).verdict, store.find(folder.name).source) == ("holds", "megatron")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("what", ["summary.json", "."])
def test_what_may_not_be_read(tmp_path: Path, what: str) -> None:
    folder = good(_store(tmp_path), NAME)
    (folder / what).chmod(0)
    try:
        bad = _all_else_works(tmp_path)
        assert (bad["verdict"], "Permission denied" in bad["reason"]) == ("unreadable", True)
    finally:
        (folder / what).chmod(0o700)
    with opened(tmp_path) as store:
        assert store.find(NAME).verdict == "holds"


@pytest.mark.parametrize("target", [NAME, "gone"])
def test_a_run_that_is_a_link_to_nothing(tmp_path: Path, target: str) -> None:
    store = _store(tmp_path)
    (store / NAME).symlink_to(target)
    assert _all_else_works(store)["verdict"] == "unreadable"


def test_a_link_to_a_run_elsewhere_is_a_run_and_pruning_takes_the_link(tmp_path: Path) -> None:
    there = good(tmp_path / "elsewhere", NAME)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / NAME).symlink_to(there)
    at = ("--store", str(tmp_path / "runs"))
    assert "holds" in _said(runs, "list", *at).stdout
    assert _said(runs, "prune", "--keep", "0", "--yes", *at).exit_code == 0
    assert (there / "summary.json").exists()
    assert not (tmp_path / "runs" / NAME).is_symlink()


def test_many_bad_runs_are_counted(tmp_path: Path) -> None:
    store = _store(tmp_path)
    for day in range(1, 10):
        make(store, f"202603{day:02}T000000Z-x", summary__json="{")
    said = _said(runs, "list", "--store", str(store)).stderr
    assert said.count("cannot be read: ") == 5
    assert "4 more cannot be read; r2cc runs list --verdict unreadable" in said


def test_only_age_prunes_what_cannot_be_read_and_never_what_may_have_tags(tmp_path: Path) -> None:
    for day, kind in enumerate(("{", '{"schema": 99}'), 1):
        make(tmp_path, f"2026010{day}T000000Z-x", summary__json=kind)
    good(tmp_path, "20260103T000000Z-x", experiment="x")
    make(tmp_path, "20260104T000000Z-x", summary__json="{", tags__json='{"tags": null}')
    make(tmp_path, "20260105T000000Z-x", summary__json="{", tags__json='{"tags": ["kept"]}')
    now = datetime(2026, 2, 1, tzinfo=UTC)
    with opened(tmp_path) as store:
        every = store.runs()
    assert prune.chosen(every, now, keep=1, older_than=None) == []
    chosen = prune.chosen(every, now, keep=0, older_than=timedelta(days=1))
    assert [run.id[:8] for run in chosen] == ["20260103", "20260102", "20260101"]


def test_one_run_that_cannot_be_removed_keeps_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _store(tmp_path)
    whole = prune.remove

    def stubborn(folder: Path, run: entry.Entry) -> None:
        if run.id == SECOND:
            (folder / run.folder).rename(folder / "moved")  # by somebody else, just now
        whole(folder, run)

    monkeypatch.setattr(prune, "remove", stubborn)
    result = CliRunner().invoke(runs, ["prune", "--keep", "0", "--yes", "--store", str(store)])
    assert f"cannot remove {store / SECOND}" in str(result.exception)
    assert not (store / FIRST).exists()


def test_what_a_killed_import_of_old_has_left_is_listed_and_pruned(tmp_path: Path) -> None:
    store = _store(tmp_path)
    (store / NAME / "raw").mkdir(parents=True)
    (store / "20260203T000000Z-x").mkdir()
    (store / "20260203T000001Z-soak").mkdir()
    (store / "20260203T000001Z-soak" / "soak.json").write_text("{}")
    with opened(store) as found:
        listed = {run.id: run.verdict for run in found.runs()}
    assert listed == {NAME: "unfinished", "20260203T000000Z-x": "unfinished", FIRST: "holds", SECOND: "holds"}
    assert _said(runs, "prune", "--keep", "0", "--yes", "--store", str(store)).exit_code == 0
    assert [path.name for path in store.iterdir() if path.is_dir()] == ["20260203T000001Z-soak"]


@pytest.mark.parametrize("name", ["plain", "a b (old)", "Ünï-☃", "a\\b", "\\x41", "[red]:bomb:", "-x", "..."])
def test_names_that_a_user_may_give(tmp_path: Path, name: str) -> None:
    good(tmp_path, name)
    at = ("--store", str(tmp_path))
    if name.startswith("."):
        return
    (listed,) = json.loads(_said(runs, "list", "--json", *at).stdout)["runs"]
    assert listed["verdict"] == "holds"
    assert names.name_of(listed["id"]) == name
    assert listed["id"] in _said(runs, "list", *at).stdout
    assert "healthy_ms" in _said(runs, "show", *at, "--", listed["id"]).stdout


@given(st.binary(min_size=1, max_size=60).filter(lambda raw: b"\0" not in raw and b"/" not in raw))
def test_every_name_has_one_id_which_can_be_printed(raw: bytes) -> None:
    name = os.fsdecode(raw)
    run = names.id_of(name)
    assert run.isprintable()
    assert os.fsencode(names.name_of(run)) == raw


@st.composite
def _spoiled(draw: st.DrawFn) -> Any:
    """A good summary in which up to three things are something else."""
    whole: Any = json.loads(json.dumps(summary()))
    whole["arms"] = [{**arm, "runs": arm["runs"][:1]} for arm in whole["arms"]]
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(places(whole)))
        if not place:
            return draw(VALUES)
        at = whole
        for step in place[:-1]:
            at = at[step]
        at[place[-1]] = draw(VALUES)
    return whole


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    spoiled=_spoiled(),
    about=VALUES,
    tags=VALUES,
    yaml=st.text(max_size=30),
    raw=st.none() | st.binary(max_size=40),
    finished=st.booleans(),
)
def test_whatever_is_written_into_a_run(
    *, spoiled: Any, about: Any, tags: Any, yaml: str, raw: bytes | None, finished: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = _store(Path(folder))
        files = {"environment__json": json.dumps(about), "tags__json": json.dumps({"schema": 1, "tags": tags})}
        files |= {"experiment__yaml": yaml.encode(errors="replace").decode()}
        if finished:
            files["summary__json"] = json.dumps(spoiled)
        make(store, NAME, **files, journal__jsonl=json.dumps(spoiled) + "\n" if raw is None else raw)
        bad = _all_else_works(store)
        assert (bad["reason"] is not None) == (bad["verdict"] == "unreadable")
