"""YAML text to nodes and values under limits, and back: how long, how deep, how much its aliases may stand for.

libyaml splits the text where PyYAML was built with it, in a third of the time; what the limits are is ours either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml
from yaml.composer import Composer, ComposerError
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import Resolver
from yaml.scanner import Scanner

from harness.config.files import MOST_INPUT_BYTES
from harness.config.words import shown

MOST_DEPTH = 64
MOST_VALUES = 400_000
"""Scalars, lists and mappings, each counted as often as an alias repeats it."""
WIDTH = 110
MERGE = "tag:yaml.org,2002:merge"
DAMAGED = (ValueError, ArithmeticError, LookupError, AttributeError, TypeError)
"""What PyYAML lets through when a value does not fit its tag: `2026-13-45`, `!!int ""`, `!!bool maybe`."""


class Malformed(ValueError):
    """Text that is no YAML, or is beyond a limit. `line` counts from 1."""

    def __init__(self, problem: str, line: int = 1) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True)
class Weight:
    """Of a node with all that is in it, aliases written out."""

    values: int
    depth: int


class Limited(Composer, SafeConstructor, Resolver):
    """Gives up on what is too deep or too large, before it is built. Composes in Python, where that can be seen."""

    def __init__(self) -> None:
        for part in (Composer, SafeConstructor, Resolver):
            part.__init__(self)
        self.depth = 0
        self.weights: dict[yaml.Node, Weight] = {}
        self.merged: list[tuple[yaml.MappingNode, list[tuple[yaml.Node, yaml.Node]]]] = []

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[attr-defined]
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


class PythonLoader(Limited, Reader, Scanner, Parser):
    """Without libyaml."""

    def __init__(self, text: str) -> None:
        Limited.__init__(self)
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)


def _fastest() -> Any:
    if not yaml.__with_libyaml__:
        return PythonLoader
    from yaml.cyaml import CParser  # type: ignore[attr-defined]

    class CLoader(Limited, CParser):
        def __init__(self, text: str) -> None:
            Limited.__init__(self)
            CParser.__init__(self, text)

    return CLoader


LOADER = _fastest()


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def loaded(text: str) -> tuple[yaml.Node | None, Any]:
    """(node tree, plain value) of one document; (None, None) of an empty one. Malformed: it is no YAML, or too much."""
    if len(text) > MOST_INPUT_BYTES:
        raise Malformed(f"larger than {MOST_INPUT_BYTES >> 20} MiB, which is the most")
    try:
        loader = LOADER(text)
        node = loader.get_single_node()
        return node, None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark, lines = error.problem_mark or error.context_mark, text.count("\n") + 1  # libyaml's end is a line later
        raise Malformed(str(error.problem or error.context), min(mark.line + 1, lines) if mark else 1) from error
    except yaml.YAMLError as error:
        raise Malformed(str(error).splitlines()[0]) from error
    except UnicodeEncodeError as error:
        raise Malformed("it holds half of a surrogate pair, which is no letter") from error


def value_of(text: str) -> Any:
    """The plain value of one document. Malformed as `loaded`."""
    return loaded(text)[1]


def dumped(value: Any) -> str:
    """A plain value as YAML, in its own order; `loaded` gives it back."""
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=WIDTH)
    return text
