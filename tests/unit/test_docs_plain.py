"""Documentation is in plain English: short sentences, a first paragraph that says what a page is, no vague words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = sorted(page for page in ROOT.glob("docs/**/*.md") if "raw" not in page.parts)
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")), *DOCS]
MOST_WORDS, MOST_IN_RESULTS, FEWEST_IN_THE_FIRST = 30, 40, 10
NO_PROSE = ("#", "|", "<!--", "![", "```")
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
END = re.compile(r"(?<=[.!?])[\")*_]*\s+(?=[\"(*_\[`]*[A-Z0-9`])")
VAGUE = re.compile(
    r"\b(simply|easily|obviously|of course|basically|various|leverages?|utili[sz]es?|robust|seamless\w*|powerful"
    r"|quite|fairly|somehow|and so on|as appropriate|state-of-the-art|cutting-edge|world-class)\b|\betc\.",
    re.IGNORECASE,
)


def blocks(text: str) -> Iterator[str]:
    """Paragraphs and items of lists, each as one line; neither headings nor tables nor what is fenced."""
    block: list[str] = []
    for line in [*re.sub(r"(?ms)^ *```.*?^ *```$", "\n", text).splitlines(), ""]:
        ends = not line.strip() or line.lstrip().startswith(NO_PROSE)
        if block and (ends or ITEM.match(line)):
            yield " ".join(block)
            block = []
        if not ends:
            block.append(ITEM.sub("", line, count=1).strip())


def plain(text: str) -> str:
    """Of a link its words alone; code is one word."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "`code`", text))


def words(sentence: str) -> int:
    return sum(any(letter.isalnum() for letter in word) for word in sentence.split())


def too_long(page: Path) -> list[str]:
    most = MOST_IN_RESULTS if "results" in page.parts else MOST_WORDS
    sentences = (sentence for block in blocks(page.read_text()) for sentence in END.split(plain(block)))
    return [f"{words(sentence)} words: {sentence}" for sentence in sentences if words(sentence) > most]


def beginning(page: Path) -> str:
    """What stands between a page's title and whatever comes next that is no prose."""
    text = re.sub(r"(?m)^<!--.*-->$", "", page.read_text())
    after = text.split("\n", 1)[1].lstrip("\n") if "\n" in text else ""
    return "" if after.startswith(NO_PROSE) else plain(next(blocks(after), ""))


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_sentences_are_short(page: Path) -> None:
    assert too_long(page) == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_begins_by_saying_what_it_is(page: Path) -> None:
    assert words(beginning(page)) >= FEWEST_IN_THE_FIRST, beginning(page)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_word_is_vague(page: Path) -> None:
    assert sorted({word.group() for word in VAGUE.finditer(page.read_text())}) == []


def test_the_tests_see_what_is_wrong(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    table, fence = f"| a |\n|---|\n| {'word ' * 50} |", f"```\n{'code ' * 50}\n```"
    page.write_text(f"# A title\n\n{table}\n\n- Short.\n- {'word ' * 31}\n\n{fence}\n")
    assert len(too_long(page)) == 1
    assert beginning(page) == ""
    page.write_text("# A title\n\nThis page is [short](and/long.md). It ends with `some code here`.\n")
    assert too_long(page) == []
    assert words(beginning(page)) == 8
