"""The options of `r2cc chaos soak`."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from chaos.commands import soak as command


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
