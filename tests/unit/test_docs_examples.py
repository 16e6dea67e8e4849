"""What the documentation shows can be typed, and what is cheap to run really works."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from test_help_examples import parsed

from harness.cli import run_cli

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"raw", "commands.md"}
"""What ran long ago, and what test_help_examples.py types."""
PAGES = [ROOT / "README.md", *sorted(page for page in ROOT.glob("docs/**/*.md") if not ELSEWHERE & {*page.parts})]
CHEAP = (
    "--dry-run",
    "chaos faults",
    "chaos validate",
    "hosts list",
    "completion",
    "plan --",
    "lab status",
    "runs list",
    "sim validate",
    "fork status",
)
"""A command with one of these starts nothing, or computes for a second."""
OWN = {"manifest.xml", "gate.json", "experiments/mine.yaml", "experiments/my_job.yaml"}
"""Files that a reader has, and a checkout has not."""


def fences(text: str) -> Iterator[str]:
    for block in re.findall(r"^```(?:bash|sh|console)?\n(.*?)^```", text, flags=re.S | re.M):
        yield from re.sub(r"\\\n\s*", " ", block).splitlines()


def simple_commands(line: str) -> Iterator[list[str]]:
    """The commands of one line, each as words: without comments, redirections and what is not ours."""
    lexer = shlex.shlex(re.split(r"\s#\s", line)[0], posix=True, punctuation_chars="|&;<>")
    lexer.commenters, lexer.whitespace_split = "", True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if not set(word) <= set("|&;<>"):
            words.append(word)
            continue
        start = next((i for i, each in enumerate(words) if "=" not in each), 0)
        if words[start : start + 1] == ["salloc"]:
            start = words.index("r2cc")
        if len(words) > start + 1 and re.fullmatch(r"(\S*/bin/)?r2cc", words[start]):
            yield ["r2cc", *words[start + 1 :]]
        words = []


def shown() -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for page in PAGES:
        for line in fences(page.read_text()):
            if re.search(r"(^|\s|/)r2cc ", line) and "$(" not in line:
                new = [words for words in simple_commands(line) if words not in [each for _, each in found]]
                found += [(str(page.relative_to(ROOT)), words) for words in new]
    return found


SHOWN = shown()


def named(case: tuple[str, list[str]]) -> str:
    return f"{case[0]}: {shlex.join(case[1])}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a checkout in which somebody wrote an inventory, and measured the costs of a lab."""
    for name in ("experiments", "docs", "ci", "tests", "build"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "FILE").write_text((ROOT / "docs/examples/inventory.yaml").read_text())
    (tmp_path / "runs").mkdir()
    (tmp_path / "cluster.yaml").write_text((ROOT / "docs/examples/inventory.yaml").read_text())
    (tmp_path / "lab.json").write_text((ROOT / "harness/schedules/costs/profiles/lab.json").read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", SHOWN, ids=named)
def test_it_can_be_typed(case: tuple[str, list[str]], place: Path) -> None:
    try:
        parsed(case[1])
    except click.BadParameter as error:
        assert "does not exist" in error.message, error.message
    for file in re.findall(r"experiments/[\w./-]+", " ".join(case[1])):
        assert file in OWN or (ROOT / file).exists(), file


def cheap(words: list[str]) -> bool:
    line = shlex.join(words)
    elsewhere = any(word in line for word in ("vm", "slurm", "srun", "--mpi"))
    away = elsewhere or ("cluster.yaml" in line and "list" not in words)
    names = [word for word in words if re.match(r"[A-Z]{3,}$", word) or word in OWN]
    return any(part in line for part in CHEAP) and not away and not names and "prune" not in words


@pytest.mark.build
@pytest.mark.parametrize("case", [case for case in SHOWN if cheap(case[1])], ids=named)
def test_what_is_cheap_works(case: tuple[str, list[str]], place: Path) -> None:
    words = [name for word in case[1][1:] for name in (map(str, Path().glob(word)) if "/*" in word else [word])]
    assert run_cli(words) == 0


def test_there_are_many() -> None:
    assert len(SHOWN) > 100
    assert sum(cheap(words) for _, words in SHOWN) > 10


def files() -> list[tuple[str, str]]:
    """Whole experiments and inventories that a page shows."""
    blocks = [
        (page.name, block) for page in PAGES for block in re.findall(r"(?ms)^```yaml\n(.*?)^```", page.read_text())
    ]
    return [(name, block) for name, block in blocks if re.search(r"(?m)^(arms|hosts):", block) and "axes:" not in block]


FILES = files()


@pytest.mark.parametrize("shown", FILES, ids=[name for name, _ in FILES])
def test_a_file_that_is_shown_is_valid(shown: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "shown.yaml"
    file.write_text(re.sub(r"(?m)^.*key: ~/.*\n", "", shown[1]))
    inventory = "\nhosts:" in shown[1]
    assert run_cli(["hosts", "list", "--inventory", str(file)] if inventory else ["chaos", "validate", str(file)]) == 0


def test_the_tutorial_shows_both() -> None:
    assert sum(name == "tutorial.md" for name, _ in FILES) == 2
