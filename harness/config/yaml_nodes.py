"""The tree of nodes that YAML was read into: it knows the lines of keys and values."""

from __future__ import annotations

from collections.abc import Iterator

import yaml
from yaml import Node

from harness.config.words import shown
from harness.config.yaml_text import MERGE


def child(node: Node, part: str | int) -> tuple[Node, Node] | None:
    """(key, value) of an entry, those that `<<` merges into a mapping among them; of a list's entry twice itself."""
    if isinstance(node, yaml.MappingNode):
        own = next(((k, v) for k, v in node.value if k.value == str(part)), None)
        return own or next(filter(None, (child(merged, part) for merged in _merged(node))), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None


def with_one(root: Node, key: str, index: int) -> Node:
    """The same mapping with one entry of the list `key` alone."""

    def kept(name: Node, node: Node) -> Node:
        if name.value != key or not isinstance(node, yaml.SequenceNode):
            return node
        return yaml.SequenceNode(node.tag, [node.value[index]], node.start_mark, node.end_mark)

    pairs = [(name, kept(name, node)) for name, node in root.value]
    return yaml.MappingNode(root.tag, pairs, root.start_mark, root.end_mark)


def duplicates(root: Node | None) -> list[tuple[int, str]]:
    """(line, message) of keys given twice: YAML silently takes the last. What an alias repeats is looked at once."""
    found: list[tuple[int, str]] = []
    waiting, seen = [root], {root}
    while waiting:
        node = waiting.pop()
        inner = [] if node is None or isinstance(node, yaml.ScalarNode) else _inner(node)
        found += _doubled(node) if isinstance(node, yaml.MappingNode) else []
        waiting += [each for each in dict.fromkeys(inner) if each not in seen]
        seen.update(inner)
    return sorted(found)


def _merged(node: yaml.MappingNode) -> Iterator[Node]:
    """What `<<` puts into a mapping."""
    for key, value in node.value:
        if key.tag == MERGE:
            yield from value.value if isinstance(value, yaml.SequenceNode) else [value]


def _inner(node: Node) -> list[Node]:
    return [value for _, value in node.value] if isinstance(node, yaml.MappingNode) else list(node.value)


def _doubled(node: yaml.MappingNode) -> Iterator[tuple[int, str]]:
    names: set[str] = set()
    for key, _ in node.value:
        if str(key.value) in names:
            yield key.start_mark.line + 1, f"duplicate key {shown(str(key.value))}"
        names.add(str(key.value))
