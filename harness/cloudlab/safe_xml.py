"""XML from elsewhere, as elements that know their line. No document type: no entities to expand, no files to fetch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

MOST_BYTES = 16 * 1024 * 1024
MOST_DEPTH = 64
SEPARATOR = "\x01"
"""Between namespace and name; no character of XML."""


@dataclass
class Element:
    """One element. `space` is its namespace, `name` what it is called there."""

    space: str
    name: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def all(self, name: str) -> Iterator[Element]:
        """Children of that name in this element's own namespace."""
        return (child for child in self.children if (child.space, child.name) == (self.space, name))

    def first(self, name: str) -> Element | None:
        return next(self.all(name), None)

    def text(self, attribute: str) -> str:
        return self.attributes.get(attribute, "").strip()


def parse(data: bytes) -> Element:
    """The root element. Raises ValueError with line and what is wrong: it is no XML, or has what no manifest has."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"1: over {MOST_BYTES // 1024 // 1024} MiB, which no manifest has")
    data = _from_first_mark(data)
    parser = expat.ParserCreate(namespace_separator=SEPARATOR)
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    builder = _Builder(parser)
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.StartDoctypeDeclHandler = builder.refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ValueError(f"{error.lineno}: not valid XML: {expat.ErrorString(error.code)}") from error
    assert builder.root is not None, "expat reports a document without an element itself"
    return builder.root


def _from_first_mark(data: bytes) -> bytes:
    """Without blanks before the declaration, which pasting brings and XML forbids; lines keep their numbers."""
    bare = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    before = data[: len(data) - len(bare)].count(b"\n")
    if not bare.startswith(b"<?xml"):
        return b"\n" * before + bare
    end = bare.find(b"?>") + 2
    return bare[:end] + b"\n" * before + bare[end:]


class _Builder:
    def __init__(self, parser: expat.XMLParserType) -> None:
        self.root: Element | None = None
        self._open: list[Element] = []
        self._parser = parser

    def start(self, name: str, attributes: dict[str, str]) -> None:
        space, _, own = name.rpartition(SEPARATOR)
        element = Element(space, own, attributes, self._parser.CurrentLineNumber)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        if len(self._open) > MOST_DEPTH:
            raise ValueError(f"{element.line}: elements are nested over {MOST_DEPTH} deep, which no manifest has")

    def end(self, _name: str) -> None:
        self._open.pop()

    def refuse(self, name: str, *_: object) -> None:
        line = self._parser.CurrentLineNumber
        raise ValueError(f"{line}: it declares a document type ({name}), which no manifest has; not read any further")
