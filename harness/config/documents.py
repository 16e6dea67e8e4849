"""The one reader of YAML files. A document remembers on which line each value stood, so that a message can say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config import files, plain, yaml_nodes, yaml_text
from harness.config.files import MOST_INPUT_BYTES, Unreadable
from harness.config.kinds import Kind, misplaced
from harness.config.yaml_text import Malformed

if TYPE_CHECKING:
    from yaml import Node

Location = Sequence[str | int]
LONGEST = 1000
"""Letters of one message: it may quote what the file says."""


@dataclass(frozen=True)
class Document:
    """A parsed file: its plain value, the node tree for line numbers, and mistakes YAML itself lets pass."""

    file: str
    value: Any
    root: Node | None = None
    errors: list[str] = field(default_factory=list)

    @property
    def unreadable(self) -> bool:
        """There is no value, and `errors` say why."""
        return self.value is None and bool(self.errors)

    def message(self, location: Location, text: str, *, key: bool = False) -> str:
        """`file:line: text`, where line is that of the value at `location`, or of its key."""
        cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
        return f"{self.file}:{self.line(location, key=key)}: {cut}"

    def said(self, place: Location, text: str) -> str:
        """The same of a key, which the message names: `file:line: a.b: text`."""
        dotted = ".".join(map(str, place))
        return self.message(place, f"{dotted}: {text}" if dotted else text, key=True)

    def line(self, location: Location, *, key: bool = False) -> int:
        """1-based line of the deepest node of `location` that the file has (a missing key: the line of its parent)."""
        if self.root is None:
            return 1
        node = self.root
        line = node.start_mark.line
        for part in location:
            step = yaml_nodes.child(node, part)
            if step is None:
                break
            name, node = step
            line = (name if key else node).start_mark.line
        return int(line) + 1

    def part(self, key: str) -> Document:
        """One section of a mapping as a document of its own: it has the same file and lines."""
        step = None if self.root is None else yaml_nodes.child(self.root, key)
        return Document(self.file, self.value[key], None if step is None else step[1])

    def with_one(self, key: str, index: int, item: Any) -> Document:
        """The same file with only one entry in the list `key`: `item`, which stands where entry `index` does."""
        root = None if self.root is None else yaml_nodes.with_one(self.root, key, index)
        return Document(self.file, {**self.value, key: [item]}, root)

    def with_value(self, value: Any) -> Document:
        """The same file with another value, of which it keeps the lines that it has."""
        return replace(self, value=value)


def load(path: Path, kind: Kind) -> Document:
    """A file that somebody wrote. UsageError: it cannot be read; what is wrong with its text is in `errors`."""
    return parse(files.input_of(path, f"the {kind.name}", kind.hint), str(path), kind)


def parse(text: str, file: str, kind: Kind | None = None) -> Document:
    """The same of text; `file` is what messages call it. With an error that leaves no value, `value` is None: it is no
    YAML, beyond a limit, or of another kind than `kind`."""
    try:
        root, value = yaml_text.loaded(text)
    except Malformed as error:
        return Document(file, None, None, [f"{file}:{error.line}: not valid YAML: {error}"])
    if kind is not None and (words := misplaced(value, kind, file)):
        return Document(file, None, None, [f"{file}:1: {words}"])
    return Document(file, value, root, [f"{file}:{line}: {text}" for line, text in yaml_nodes.duplicates(root)])


def mapping_of(path: Path, most_bytes: int = MOST_INPUT_BYTES) -> dict[str, Any]:
    """The mapping in a file that anybody may have written, as those of a run directory; {} of an empty one.

    Missing, or Unreadable: no regular file, no YAML, no mapping, or beyond the limits.
    """
    try:
        value = yaml_text.value_of(files.text_of(path, most_bytes))
    except Malformed as error:
        raise Unreadable(f"{path.name} is no YAML: {error}") from error
    plain.check(value, path.name)
    if value is not None and not isinstance(value, dict):
        raise Unreadable(f"{path.name} holds no mapping")
    return value or {}
