"""YAML that remembers on which line each value stood, so that a message can point at it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

Location = Sequence[str | int]


@dataclass
class Document:
    """A parsed file: its plain value, the node tree for line numbers, and mistakes YAML itself lets pass."""

    file: str
    value: Any
    root: yaml.Node | None
    errors: list[str] = field(default_factory=list)

    def message(self, location: Location, text: str, *, key: bool = False) -> str:
        """`file:line: text`, where line is that of the value at `location`, or of its key."""
        return f"{self.file}:{self.line(location, key=key)}: {text}"

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


def read(text: str, file: str) -> Document:
    """Parses one document. Syntax errors become `errors` with a line; the value is then None."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return _unreadable(file, mark.line + 1 if mark else 1, str(error.problem or error.context))
    except (yaml.YAMLError, ValueError) as error:
        return _unreadable(file, 1, str(error).splitlines()[0])
    return Document(file, value, root, [f"{file}:{line}: {text}" for line, text in _duplicates(root)])


def _unreadable(file: str, line: int, problem: str) -> Document:
    return Document(file, None, None, [f"{file}:{line}: not valid YAML: {problem}"])


def _child(node: yaml.Node, part: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((k, v) for k, v in node.value if k.value == str(part)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None


def _duplicates(node: yaml.Node | None) -> list[tuple[int, str]]:
    """Keys given twice: YAML silently takes the last."""
    found: list[tuple[int, str]] = []
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                found.append((key.start_mark.line + 1, f"duplicate key '{key.value}'"))
            seen.add(str(key.value))
            found += _duplicates(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            found += _duplicates(item)
    return found


def line_of(message: str) -> tuple[int, str]:
    """Sort key of a `file:line: text` message."""
    found = re.search(r":(\d+): ", message)
    return (int(found.group(1)) if found else 0, message)
