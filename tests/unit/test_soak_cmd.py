"""The options of `r2cc chaos soak`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chaos.commands import soak as command
from harness.errors import UsageError


def test_the_old_name_of_the_testbed_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(command, "_soaked", lambda each: asked.append(each.bed) or 0)
    words: list[list[str]] = [[], ["--testbed", "vm"], ["--bed", "vm"], ["--bed=vm"], ["--testbed", "uml"]]
    assert [CliRunner().invoke(command.soak, each, standalone_mode=False).return_value for each in words] == [0] * 5
    assert asked == ["lab", "vm", "vm", "vm", "uml"]
    shown = CliRunner().invoke(command.soak, ["--help"]).output
    assert "--testbed" in shown and "--bed" not in shown
    refused = CliRunner().invoke(command.soak, ["--bed", "moon"])
    assert refused.exit_code == 2 and "'--testbed'" in refused.output


def test_the_folder_of_a_soak_that_goes_on_is_tried_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """soak.json is written at the end: an hour later."""

    def refused(folder: Path, _name: str) -> None:
        raise OSError(30, "Read-only file system", str(folder))

    monkeypatch.setattr("chaos.soak.resume.earlier", lambda *_: None)
    monkeypatch.setattr("harness.files.writing.try_file", refused)
    monkeypatch.setattr(command, "_settled", lambda *_: pytest.fail("it goes on"))
    done = CliRunner().invoke(command.soak, ["--resume", str(tmp_path)])
    assert isinstance(done.exception, UsageError)
    assert done.exception.message == f"cannot write {tmp_path}: Read-only file system"
