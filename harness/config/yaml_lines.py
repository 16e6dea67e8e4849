"""YAML that remembers on which line each value stood, so that a message can point at it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from harness.config.words import shown
from harness.config.yaml_loader import MERGE, loaded

Location = Sequence[str | int]
LONGEST = 1000
"""Letters of one message: it may quote what the file says."""


@dataclass
class Document:
    """A parsed file: its plain value, the node tree for line numbers, and mistakes YAML itself lets pass."""

    file: str
    value: Any
    root: yaml.Node | None
    errors: list[str] = field(default_factory=list)

    def message(self, location: Location, text: str, *, key: bool = False) -> str:
        """`file:line: text`, where line is that of the value at `location`, or of its key."""
        cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
        return f"{self.file}:{self.line(location, key=key)}: {cut}"

    def line(self, location: Location, *, key: bool = False) -> int:
        """1-based line of the deepest node of `location` that the file has (a missing key: the line of its parent)."""
        if self.root is None:
            return 1
        node = self.root
        line = node.start_mark.line
        for part in location:
            step = _child(node, part)
            if step is None:
                break
            name, node = step
            line = (name if key else node).start_mark.line
        return int(line) + 1

    def part(self, key: str) -> Document:
        """One section of a mapping as a document of its own: it has the same file and lines."""
        step = None if self.root is None else _child(self.root, key)
        return Document(self.file, self.value[key], None if step is None else step[1])

    def with_one(self, key: str, index: int, item: Any) -> Document:
        """The same file with only one entry in the list `key`: `item`, which stands where entry `index` does."""
        value = {**self.value, key: [item]}
        return Document(self.file, value, None if self.root is None else _with_one(self.root, key, index))


def read(text: str, file: str) -> Document:
    """Parses one document. Syntax errors become `errors` with a line; the value is then None."""
    try:
        root, value = loaded(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return _unreadable(file, mark.line + 1 if mark else 1, str(error.problem or error.context))
    except yaml.YAMLError as error:
        return _unreadable(file, 1, str(error).splitlines()[0])
    return Document(file, value, root, [f"{file}:{line}: {text}" for line, text in _duplicates(root)])


def _unreadable(file: str, line: int, problem: str) -> Document:
    return Document(file, None, None, [f"{file}:{line}: not valid YAML: {problem}"])


def _child(node: yaml.Node, part: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        own = next(((k, v) for k, v in node.value if k.value == str(part)), None)
        return own or next(filter(None, (_child(merged, part) for merged in _merged(node))), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None


def _with_one(root: yaml.Node, key: str, index: int) -> yaml.Node:
    def kept(name: yaml.Node, node: yaml.Node) -> yaml.Node:
        if name.value != key or not isinstance(node, yaml.SequenceNode):
            return node
        return yaml.SequenceNode(node.tag, [node.value[index]], node.start_mark, node.end_mark)

    pairs = [(name, kept(name, node)) for name, node in root.value]
    return yaml.MappingNode(root.tag, pairs, root.start_mark, root.end_mark)


def _merged(node: yaml.MappingNode) -> Iterator[yaml.Node]:
    """What `<<` puts into a mapping."""
    for key, value in node.value:
        if key.tag == MERGE:
            yield from value.value if isinstance(value, yaml.SequenceNode) else [value]


def _duplicates(root: yaml.Node | None) -> list[tuple[int, str]]:
    """Keys given twice: YAML silently takes the last. What an alias repeats is looked at once."""
    found: list[tuple[int, str]] = []
    waiting, seen = [root], {root}
    while waiting:
        node = waiting.pop()
        inner = [] if node is None or isinstance(node, yaml.ScalarNode) else _inner(node)
        found += _doubled(node) if isinstance(node, yaml.MappingNode) else []
        waiting += [each for each in dict.fromkeys(inner) if each not in seen]
        seen.update(inner)
    return sorted(found)


def _inner(node: yaml.Node) -> list[yaml.Node]:
    return [value for _, value in node.value] if isinstance(node, yaml.MappingNode) else list(node.value)


def _doubled(node: yaml.MappingNode) -> Iterator[tuple[int, str]]:
    names: set[str] = set()
    for key, _ in node.value:
        if str(key.value) in names:
            yield key.start_mark.line + 1, f"duplicate key {shown(str(key.value))}"
        names.add(str(key.value))


def line_of(message: str) -> tuple[int, str]:
    """Sort key of `file:line: text` messages of one file."""
    found = re.search(r":(\d+): ", message)
    return (int(found.group(1)) if found else 0, message)
