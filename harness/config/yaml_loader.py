"""YAML of a user under limits: how long, how deep, and how much its aliases may stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from harness.config.files import MOST_BYTES
from harness.config.words import shown

MOST_DEPTH = 64
MOST_VALUES = 400_000
"""Scalars, lists and mappings, each counted as often as an alias repeats it."""
MERGE = "tag:yaml.org,2002:merge"
DAMAGED = (ValueError, ArithmeticError, LookupError, AttributeError, TypeError)
"""What PyYAML lets through when a value does not fit its tag: `2026-13-45`, `!!int ""`, `!!bool maybe`."""


@dataclass(frozen=True)
class Weight:
    """Of a node with all that is in it, aliases written out."""

    values: int
    depth: int


class _Loader(yaml.SafeLoader):
    """SafeLoader that gives up on what is too deep or too large, before it is built."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.weights: dict[yaml.Node, Weight] = {}
        self.merged: list[tuple[yaml.MappingNode, list[tuple[yaml.Node, yaml.Node]]]] = []

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        mark, alias = event.start_mark, isinstance(event, yaml.AliasEvent)
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise ComposerError(None, None, f"more than {MOST_DEPTH} levels deep", mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        if alias and node not in self.weights:
            raise ComposerError(None, None, "an alias stands inside what it names", mark)
        if node is not None and not alias:
            self._weigh(node)
        return node

    def _weigh(self, node: yaml.Node) -> None:
        parts = [self.weights[part] for part in _parts(node)]
        weight = Weight(1 + sum(part.values for part in parts), 1 + max((part.depth for part in parts), default=0))
        if weight.depth > MOST_DEPTH:
            raise ComposerError(None, None, f"more than {MOST_DEPTH} levels deep with its aliases", node.start_mark)
        if weight.values > MOST_VALUES:
            raise ComposerError(None, None, f"more than {MOST_VALUES} values with its aliases", node.start_mark)
        self.weights[node] = weight
        if isinstance(node, yaml.MappingNode) and any(key.tag == MERGE for key, _ in node.value):
            self.merged.append((node, list(node.value)))

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except DAMAGED as error:
            words = f"{shown(node.value)} is no {node.tag.rpartition(':')[2]}"
            raise ConstructorError(None, None, words, node.start_mark) from error

    def construct_document(self, node: yaml.Node) -> Any:
        """The value. Merging (`<<`) writes into the nodes: they are put back, so that lines can be found in them."""
        value = super().construct_document(node)
        for merged, before in self.merged:
            merged.value = before
        return value


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def loaded(text: str) -> tuple[yaml.Node | None, Any]:
    """(node tree, plain value) of one document. yaml.YAMLError, mostly with a mark: it is no YAML, or too much."""
    if len(text) > MOST_BYTES:
        raise yaml.YAMLError(f"larger than {MOST_BYTES >> 20} MiB, which is the most")
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        return node, None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


def value_of(text: str) -> Any:
    """The plain value of one document. yaml.YAMLError as `loaded`."""
    return loaded(text)[1]
