"""Campaign files: YAML to checked cells, with every error of the file and of its experiments at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.campaign.model import LONGEST_NAME, Campaign, Cell, Entry, Header
from chaos.campaign.settings import combinations
from chaos.experiment import file as experiments
from chaos.experiment.model import Experiment
from chaos.testbed.beds import check, topology_of
from harness.config import documents
from harness.config.documents import Document
from harness.config.dotted import applied
from harness.config.fitting import fitted
from harness.config.kinds import CAMPAIGN, EXPERIMENT
from harness.config.words import in_order
from harness.errors import InputErrors, UsageError
from harness.sites.inventory import parse
from harness.sites.site import Site

Place = tuple[str | int, ...]
NAMES_SHOWN = 3
MOST_CELLS = 10_000


def load(path: Path, site: Site | None = None, nccl: str | None = None) -> Campaign:
    """Reads and checks a campaign file. Raises InputErrors with every error, UsageError when it cannot be read.

    `site` is for all cells, whatever the file says, and so is `nccl`, the version that they run.
    """
    reader = Reader(path, documents.load(path, CAMPAIGN), site, nccl)
    campaign = reader.campaign()
    if campaign is None:
        raise InputErrors(reader.errors())
    return campaign


@dataclass
class Reader:
    """One file being read. Errors that several cells share are told once, naming them."""

    path: Path
    document: Document
    site: Site | None = None
    nccl: str | None = None
    found: dict[tuple[int, str], list[str]] = field(default_factory=dict)
    sources: dict[Path, Source] = field(default_factory=dict)

    def campaign(self) -> Campaign | None:
        """None: there are errors."""
        if self.document.unreadable:
            return None
        value = self.document.value
        header = fitted(Header, value, self.report)
        entries = value.get("cells") if isinstance(value, dict) else None
        cells = [
            cell
            for index, item in enumerate(entries if isinstance(entries, list) else [])
            if (entry := fitted(Entry, item, self.report, ("cells", index))) is not None
            for cell in self.cells(entry, ("cells", index))
        ]
        if header is None or self.found or self.document.errors:
            return None
        return Campaign(header.name, header.description, self.path, cells)

    def errors(self) -> list[str]:
        """All of them, in the file's order."""
        told = [
            f"{self.path}:{line}: {_cells(names)}{text}" for (line, text), names in self.found.items()
        ]  # fmt: skip
        return in_order([*told, *self.document.errors], str(self.path))

    def report(self, place: Place, what: str, cell: str | None = None) -> None:
        dotted = ".".join(map(str, place))
        text = what if cell is not None or not dotted else f"{dotted}: {what}"
        names = self.found.setdefault((self.document.line(place, key=True), text), [])
        if cell is not None:
            names.append(cell)

    def cells(self, entry: Entry, place: Place) -> list[Cell]:
        """The cells of an entry that have no error."""
        source = self.path.parent / entry.experiment
        known = self.sources.setdefault(source, Source(source))
        if known.problem is not None:
            self.report((*place, "experiment"), known.problem)
            return []
        for key in entry.matrix:
            if key in entry.set:
                self.report((*place, "matrix", key), "the entry's `set` has the same key")
        count = math.prod(map(len, entry.matrix.values()))
        if count > MOST_CELLS:
            self.report((*place, "matrix"), f"it makes {count} cells, and {MOST_CELLS} is the most")
            return []
        named = combinations(entry.name or source.stem, entry.matrix)
        made = [self.cell(name, entry, known, {**entry.set, **chosen}, place) for name, chosen in named]
        return [cell for cell in made if cell is not None]

    def cell(self, name: str, entry: Entry, source: Source, changes: Mapping[str, Any], place: Place) -> Cell | None:
        self.check_name(name, place)
        section = {key: "matrix" if key in entry.matrix else "set" for key in changes}

        def report(text: str) -> None:
            key = next((key for key in changes if _speaks_of(text, key)), None)
            self.report(place if key is None else (*place, section[key], key), text, name)

        try:
            experiment = source.with_changes(changes)
            updates = {"repeats": entry.repeats, "seed": entry.seed}
            wanted = {key: value for key, value in updates.items() if value is not None}
            experiment = experiment.model_copy(update=wanted)
            site = self.site_of(entry)
            check(site, experiment)
        except InputErrors as error:
            for text in error.errors:
                report(text)
        except UsageError as error:
            report(error.message)
        else:
            arms = list(dict.fromkeys(entry.arms or experiment.arms))
            for arm in [arm for arm in arms if arm not in list(experiment.arms)]:
                has = f"{source.path} has {', '.join(experiment.arms)}"
                self.report((*place, "arms"), f"no arm {arm!r}: {has}", name)
            topology = topology_of(experiment).model_dump(mode="json", exclude_defaults=True)
            return Cell(name, source.path, experiment, arms, site, topology, entry.minutes, changes, self.nccl)
        return None

    def site_of(self, entry: Entry) -> Site:
        """One for all cells that name the same, so that its hosts are connected to once."""
        if self.site is not None:
            return self.site
        return self._sites.setdefault(entry.inventory, parse(entry.inventory))

    def check_name(self, name: str, place: Place) -> None:
        """Cells are directories: each has a name of its own."""
        taken = self._names.setdefault(name, place)
        if taken is not place:
            self.report(place, f"a cell of this name is there already, of line {self.document.line(taken)}", name)
        if len(name) > LONGEST_NAME:
            self.report(place, f"the name has {len(name)} letters, and {LONGEST_NAME} is the most", name)

    def __post_init__(self) -> None:
        self._names: dict[str, Place] = {}
        self._sites: dict[str, Site] = {}


class Source:
    """An experiment's file, read once for all cells of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem: str | None = None
        try:
            self._document = documents.load(path, EXPERIMENT)
        except UsageError as error:
            self.problem = error.message
            return
        self._own = _problems(self._document, path)

    def with_changes(self, changes: Mapping[str, Any]) -> Experiment:
        """The experiment with the changes in it. Raises InputErrors, with the file's lines for what is wrong anyway."""
        if not changes or self._document.errors:
            return experiments.checked(self._document, self.path)
        value, wrong = applied(self._document.value, changes)
        errors = [f"{key}: {why}" for key, why in wrong.items()]
        try:
            experiment = experiments.checked(self._document.with_value(value), self.path)
        except InputErrors as error:
            told = [_without_place(line, self.path) for line in error.errors]
            raise InputErrors(errors + [self._own.get(line, line) for line in told]) from error
        if errors:
            raise InputErrors(errors)
        return experiment


def _problems(document: Document, path: Path) -> dict[str, str]:
    """What is wrong with the experiment as it is: by its words alone, the whole of it."""
    try:
        experiments.checked(document, path)
    except InputErrors as error:
        return {_without_place(line, path): line for line in error.errors}
    except UsageError:
        pass
    return {}


def _without_place(message: str, path: Path) -> str:
    """An error's words without the file and line that they begin with; those of other files keep them."""
    if not message.startswith(f"{path}:"):
        return message
    return message.removeprefix(f"{path}:").partition(": ")[2]


def _speaks_of(text: str, key: str) -> bool:
    """Whether an error is about what a dotted key set: it begins with it, or with a part of it as topologies do."""
    said = text.partition(": ")[0]
    return said == key or said.startswith(f"{key}.") or (key.startswith("topology.") and key.endswith(f".{said}"))


def _cells(names: list[str]) -> str:
    if not names:
        return ""
    shown, more = names[:NAMES_SHOWN], len(names) - NAMES_SHOWN
    return f"cell {', '.join(shown)}{f' and {more} more' if more > 0 else ''}: "
