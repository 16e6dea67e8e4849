"""Links between the pages of documentation lead somewhere, and the files they name are there."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = sorted(page for page in ROOT.glob("docs/**/*.md") if "raw" not in page.parts)
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")), *DOCS]
LINK = re.compile(r"\]\(([^)\s]+)\)")
OURS = "harness|chaos|reports|ci|r2cc_patches|tests|benchmarks|scripts|nccl_fork|experiments|docs"
NAMED = re.compile(rf"(?<![\w/.-])(?:{OURS})/[\w./-]*\.(?:py|cc|h|inc|sh|md|json|pml|txt|toml|yaml|yml)\b")
ABSENT = {"nccl_fork/tree", "experiments/mine.yaml", "experiments/my_job.yaml", "tests/unit/test_x.py"}
"""What a page may name without its being in a fresh checkout."""
BARE = re.compile(r"`(?:[\w/]*/)?(\w+\.(?:cc|h|inc|py|sh|pml))`")
NOT_OURS = {"lab_extras.py", "ring_extras.py", "ring_rank.py", "net_socket.cc", "train.py"}
"""Files of a reader's, of NCCL's."""


@cache
def ours() -> set[str]:
    """Names of all files in the checkout, without folders."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=-1, text=True, check=True).stdout
    return {Path(name).name for name in listed.splitlines()}


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.*)$", text, flags=re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        plain = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        again = [f"{plain}-{number}" for number in range(1, 9)]
        found.add(next(each for each in (plain, *again) if each not in found))
    return found


def broken(page: Path) -> list[str]:
    wrong = []
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            wrong.append(target)
    return wrong


def missing(text: str) -> list[str]:
    named = {name for name in NAMED.findall(text) if not name.startswith(tuple(ABSENT))}
    return sorted(name for name in named if not (ROOT / name).exists())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_are_there(page: Path) -> None:
    assert missing(page.read_text()) == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "results" not in page.parts and page.stem != "moved"], ids=str
)
def test_files_that_are_named_without_a_folder_are_somewhere(page: Path) -> None:
    assert sorted(set(BARE.findall(page.read_text())) - ours() - NOT_OURS) == []


def test_code_names_pages_that_are_there() -> None:
    listed = subprocess.run(
        ["git", "grep", "-IhoE", r"docs/[a-z_/-]+\.md", "--", ":!docs"], cwd=ROOT, stdout=-1, text=True
    )
    assert listed.returncode == 0
    assert sorted({name for name in listed.stdout.split() if not (ROOT / name).is_file()}) == []


def test_every_page_can_be_reached_from_the_index() -> None:
    reached: set[Path] = set()
    todo = [ROOT / "docs/index.md"]
    while todo:
        page = todo.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        links = (target.partition("#")[0] for target in LINK.findall(page.read_text()) if ":" not in target)
        todo += [(page.parent / target).resolve() for target in links]
    assert (
        sorted(page for page in (ROOT / "docs").glob("**/*.md") if page not in reached and "raw" not in page.parts)
        == []
    )


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
