"""`r2cc plugin-path`, `r2cc env`, `r2cc --version`: what a job is started with, and which build that is."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from harness import repo
from harness.cli import cli
from harness.errors import UsageError
from harness.launch.settings import settings_of

LIBRARY = Path("/opt/r2cc/libr2cc_net.so")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As if pip had installed r2cc into a folder with a space in its name."""
    native = tmp_path / "site packages" / "r2cc" / "native"
    native.mkdir(parents=True)
    (native / "build.json").write_text('{"build_id": "abc123", "inputs": {"nccl_version": "2.29.7-1"}}')
    (native / "libr2cc_net.so").write_bytes(b"no library")
    (native.parent / "experiments").mkdir()
    (native.parent / "experiments" / "some.yaml").touch()
    monkeypatch.setattr(repo, "PACKAGE", native.parent)
    return native


def test_exports_are_for_the_shell(installed: Path) -> None:
    text = settings_of("torchrun", installed / "libr2cc_net.so", 2).text
    said = subprocess.run(
        ["sh", "-c", f'{text}\nprintf "%s" "$NCCL_NET_PLUGIN $R2CC_MODE"'], capture_output=True, text=True, check=True
    )
    assert said.stdout == f"{installed}/libr2cc_net.so 2"


def test_words_for_mpirun_and_srun() -> None:
    assert shlex.split(settings_of("mpirun", LIBRARY, 3).text) == [
        *("-x", f"NCCL_NET_PLUGIN={LIBRARY}"),
        *("-x", "R2CC_MODE=3"),
    ]
    assert settings_of("srun", LIBRARY, 2).text == f"--export=ALL,NCCL_NET_PLUGIN={LIBRARY},R2CC_MODE=2"


def test_a_pods_environment_is_yaml() -> None:
    assert yaml.safe_load(settings_of("kubernetes", LIBRARY, 2).text)["env"] == [
        {"name": "NCCL_NET_PLUGIN", "value": str(LIBRARY)},
        {"name": "R2CC_MODE", "value": "2"},
    ]


@pytest.mark.parametrize("path", ["/a b/libr2cc_net.so", "/a,b/libr2cc_net.so", "/a$b/libr2cc_net.so"])
def test_a_path_that_is_no_word_is_refused(path: str) -> None:
    for launcher in ("mpirun", "srun"):
        with pytest.raises(UsageError, match="cannot be a word") as caught:
            settings_of(launcher, Path(path), 2)
        assert "-x NCCL_NET_PLUGIN" in str(caught.value) if launcher == "mpirun" else "--export" in str(caught.value)
    assert json.dumps(path) in settings_of("kubernetes", Path(path), 2).text


def test_what_pip_installed_is_found(installed: Path) -> None:
    done = CliRunner().invoke(cli, ["plugin-path"])
    assert done.output == f"{installed / 'libr2cc_net.so'}\n"
    found = json.loads(CliRunner().invoke(cli, ["env", "--json"]).output)
    assert found["variables"]["NCCL_NET_PLUGIN"] == str(installed / "libr2cc_net.so")
    assert repo.shipped(Path("experiments/some.yaml")) == installed.parent / "experiments" / "some.yaml"
    assert repo.shipped(Path("experiments/none.yaml")) == Path("experiments/none.yaml")


def test_what_was_not_built_is_said(installed: Path) -> None:
    done = CliRunner().invoke(cli, ["plugin-path", "faults"])
    assert isinstance(done.exception, UsageError)
    assert "has not been built" in str(done.exception)


def test_version_of_a_library_that_cannot_be_read(installed: Path) -> None:
    lines = CliRunner().invoke(cli, ["--version"]).output.splitlines()
    assert lines[0].startswith("r2cc, version ")
    assert lines[1] == "net library: not built (r2cc build net)"


def test_an_installed_build_is_taken_as_it_is(installed: Path) -> None:
    from harness.build import build_net

    built = build_net()
    assert (built.library, built.build_id, built.rebuilt) == (installed / "libr2cc_net.so", "abc123", False)
