"""Workloads of other packages: the one of docs/howto/add-a-workload.md works; a broken one costs one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from plugin_package import installed_by_pip, of_page, on_path, written

from chaos.experiment.file import dump, json_schema, load, loads
from harness.cli import cli
from harness.errors import InputErrors
from harness.workloads.kinds.registry import kinds

EXPERIMENT = """\
name: ring
topology: {hosts: 3, nics: 2}
workload: {kind: token_ring, iterations: 10, token_bytes: 64}
arms: {stock: {expect: any}}
"""


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed_by_pip(of_page("add-a-workload.md"), tmp_path_factory.mktemp("ring-extras"))


def test_a_workload_of_another_package_is_like_ours(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ring.yaml"
    path.write_text(EXPERIMENT)
    with on_path(monkeypatch, package):
        assert json_schema()["$defs"]["workload_token_ring"]["properties"]["token_bytes"]["maximum"] == 65536
        assert loads(dump(load(path)), path) == load(path)
        shown = call("chaos", "run", str(path), "--dry-run", "--json")
        ranks = [each for each in json.loads(shown.stdout)["runs"][0]["start"] if each["name"].startswith("rank")]
        assert [each["argv"][-1] for each in ranks] == ["0", "1", "2"]
        assert "ring_rank.py --ranks 3 --root" in " ".join(ranks[0]["argv"])
        assert "A token that goes around" in call("run", "--help").stdout
        shown = call("run", "token_ring", "--set", "token_bytes=7", "--dry-run")
        assert "--bytes 7 --timeout-s 120.0 --rank 0" in shown.stdout
        assert "it has token_bytes" in str(call("run", "token_ring", "--set", "x=7", "--dry-run").exception)
        with pytest.raises(InputErrors, match=r"x.yaml:3: workload.token_bytes: input should be greater"):
            loads(EXPERIMENT.replace("64", "0"), Path("x.yaml"))
    with pytest.raises(InputErrors, match=r"workload.kind: there is no workload token_ring; there are bench, "):
        load(path)


GOOD = of_page("add-a-workload.md")["ring_extras.py"]
RING = "token_ring = bad_rings:TokenRing"


@pytest.mark.parametrize(
    ("entry", "code", "said"),
    [
        ("token_ring = nowhere:TokenRing", "", "ModuleNotFoundError: No module named 'nowhere'"),
        ("token_ring = bad_rings:Path", GOOD, "is no class derived from harness.workloads.kinds.workload.Workload"),
        (RING, GOOD.replace("def command", "def order"), "TokenRing lacks command"),
        (RING, GOOD.replace("    about = ", "    about = '' # "), "TokenRing does not say about"),
        (RING, GOOD.replace("] = 1024", "]"), "it cannot do without settings: token_bytes: Field required"),
        (RING, GOOD.replace("*map(str, words)", "*words"), "command is a list of words"),
        ("other = bad_rings:TokenRing", GOOD, "it cannot do without settings: kind: Input should be 'token_ring'"),
        ("bench = bad_rings:TokenRing", GOOD, "the name is taken by r2cc 0.1.0"),
    ],
)  # fmt: skip
def test_a_broken_one_is_named_in_one_line_and_left_out(
    entry: str, code: str, said: str, tmp_path: Path, *, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    ours = list(kinds())
    with on_path(monkeypatch, written(tmp_path, "bad-rings", "r2cc.workloads", entry, module="bad_rings", code=code)):
        assert list(kinds()) == ours
        (line,) = capsys.readouterr().err.splitlines()
        name = entry.split(" ", maxsplit=1)[0]
        assert line.startswith(f"r2cc: warning: workload {name} of bad-rings 1.0 is left out: ")
        assert said in line
        if name == "token_ring":
            with pytest.raises(InputErrors, match=r"workload token_ring of bad-rings 1\.0 is left out: "):
                loads(EXPERIMENT, Path("x.yaml"))
