"""Whether a run directory can be made is tried before a run, without anything that others would see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.files import rundir


@pytest.mark.parametrize("missing", ["", "runs", "a/b/runs", "a/../runs"])
def test_the_check_leaves_nothing(tmp_path: Path, missing: str) -> None:
    rundir.check(tmp_path / missing)
    assert list(tmp_path.iterdir()) == []


def test_the_check_never_takes_away_a_folder_that_another_run_made_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen in CI: a reader of --out saw it come, go, and come again."""
    base, real = tmp_path / "deep" / "runs", os.mkdir

    def another_is_first(path: Path, mode: int = 0o777) -> None:
        if not base.exists():
            real(base.parent)
            real(base)
        real(path, mode)

    monkeypatch.setattr(os, "mkdir", another_is_first)
    rundir.check(base)
    assert list(tmp_path.rglob("*")) == [base.parent, base]


def test_the_check_makes_none_of_the_missing_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, real = [], os.mkdir

    def seen(path: Path, mode: int = 0o777) -> None:
        made.append(Path(path))
        real(path, mode)

    monkeypatch.setattr(os, "mkdir", seen)
    rundir.check(tmp_path / "deep" / "runs")
    assert made
    assert not {tmp_path / "deep", tmp_path / "deep" / "runs"} & set(made)


def test_what_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for wrong in ("file", "file/runs", "dangling", "dangling/runs", "x" * 300, "fine/" + "x" * 300):
        with pytest.raises(UsageError, match="cannot make the run directory"):
            rundir.check(tmp_path / wrong)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "file"]
