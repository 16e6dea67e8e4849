"""The link failure of an ns-3 configuration of HPCC's simulator, which many RDMA simulators build on.

Format: mix/config_doc.txt of github.com/alibaba-edu/High-Precision-Congestion-Control: `LINK_DOWN a b c`, "take down
link between b and c at time a. 0 0 0 mean no link down" (a: microseconds after second 2, simulation/scratch/third.cc),
until `SIMULATOR_STOP_TIME`, in seconds. `TOPOLOGY_FILE` as at the end of mix/topology.txt: "First line: total node #,
switch node #, link #", "Second line: switch node IDs", then `src dst rate delay error_rate` a link.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from chaos.simulate.cluster.topology import Topology
from chaos.simulate.faults import timeline
from chaos.simulate.faults.trace import DAY_S, Fault, Trace, What, listed
from harness.config.files import input_of
from harness.errors import InputErrors, UsageError

STARTS_S = 2.0
PROCESS = "LINK_DOWN"


@dataclass
class Graph:
    """Nodes that are no switches are hosts, or NICs, in the order of their numbers; links of a node in the file's."""

    nodes: int
    switches: list[int]
    links: list[tuple[int, int]] = field(default_factory=list)

    @property
    def ends(self) -> list[int]:
        return sorted(set(range(self.nodes)) - set(self.switches))

    def of(self, node: int) -> list[tuple[int, int]]:
        return [link for link in self.links if node in link]

    def tors(self) -> list[int]:
        ends = set(self.ends)
        return [switch for switch in self.switches if any(set(link) & ends for link in self.of(switch))]


def parse(text: str, path: Path, topology: Topology) -> Trace:
    """The topology file is looked for where the configuration says, from its own folder or the one above."""
    settings = _settings(text)
    errors: list[str] = []
    down = _numbers(settings, "LINK_DOWN", 3, path, errors)
    stop = _numbers(settings, "SIMULATOR_STOP_TIME", 1, path, errors)
    if "TOPOLOGY_FILE" not in settings:
        errors.append(f"{path}:1: TOPOLOGY_FILE is missing")
    if errors:
        raise InputErrors(errors)
    days, graph = stop[0] / DAY_S, _graph(path, settings["TOPOLOGY_FILE"][1][0])
    start = STARTS_S + down[0] * 1e-6
    if down[0] <= 0 or start >= stop[0]:
        return listed([], days, topology.name)
    what, where = _place(graph, int(down[1]), int(down[2]), topology, f"{path}:{settings['LINK_DOWN'][0]}")
    trace = listed([Fault(start, stop[0] - start, "cut", what, where, 0.0, PROCESS)], days, topology.name)
    if problems := timeline.misplaced(trace, topology):
        raise InputErrors([f"{path}:{settings['LINK_DOWN'][0]}: {problem}" for problem in problems])
    return trace


def _settings(text: str) -> dict[str, tuple[int, list[str]]]:
    """Key to its line and words; the last of several counts, as there."""
    rows = [(number, row.split("{")[0].split()) for number, row in enumerate(text.splitlines(), 1)]
    return {words[0]: (number, words[1:]) for number, words in rows if len(words) > 1}


def _numbers(
    settings: dict[str, tuple[int, list[str]]], key: str, count: int, path: Path, errors: list[str]
) -> list[float]:
    if key not in settings:
        errors.append(f"{path}:1: {key} is missing")
        return []
    line, words = settings[key]
    try:
        found = [float(word) for word in words[:count]]
    except ValueError:
        found = []
    if len(found) < count or min(found) < 0:
        errors.append(f"{path}:{line}: {key} takes {count} numbers from 0 on, not {' '.join(words)!r}")
    return found


def _graph(config: Path, name: str) -> Graph:
    files = [folder / name for folder in (config.parent, config.parent.parent)]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise UsageError(f"{config}: its TOPOLOGY_FILE {name} is not there", "put it beside, or one folder above")
    text = input_of(file, "the topology", "it is a text file of HPCC's simulator")
    rows = [(number, row.split()) for number, row in enumerate(text.splitlines(), 1)]
    filled = [(number, words) for number, words in rows if words]
    head = filled[0][1] if filled else []
    if len(head) != 3 or not all(word.isdecimal() for word in head):
        raise InputErrors([f"{file}:1: nodes, switches and links are needed, three whole numbers"])
    nodes, switches, links = map(int, head)
    ids, rest = (filled[1][1] if switches and filled[1:] else []), filled[1 + bool(switches) :]
    errors = _wrong(file, ids, switches, [(number, words[:2]) for number, words in rest[:links]], nodes)
    if len(rest) < links:
        errors.append(f"{file}:{rows[-1][0]}: {links} links are announced, {len(rest)} are there")
    if errors:
        raise InputErrors(errors)
    return Graph(nodes, [int(word) for word in ids], [(int(words[0]), int(words[1])) for _, words in rest[:links]])


def _wrong(file: Path, ids: list[str], switches: int, links: list[tuple[int, list[str]]], nodes: int) -> list[str]:
    def known(word: str) -> bool:
        return word.isdecimal() and int(word) < nodes

    errors = [] if len(ids) == switches and all(map(known, ids)) else [f"{file}:2: {switches} numbers of switches"]
    return errors + [
        f"{file}:{number}: a link is between two nodes below {nodes}, not {' '.join(words)!r}"
        for number, words in links
        if len(words) < 2 or not all(map(known, words))
    ]


def _place(graph: Graph, one: int, other: int, topology: Topology, line: str) -> tuple[What, tuple[int, ...]]:
    """Between end and switch: a port; between two switches: a ToR's uplink."""
    if (one, other) not in graph.links and (other, one) not in graph.links:
        raise InputErrors([f"{line}: the topology has no link between {one} and {other}"])
    if one in graph.switches and other in graph.switches:
        return "spine", _uplink(graph, one, other, line)
    end = other if one in graph.switches else one
    number, ends = graph.ends.index(end), len(graph.ends)
    if ends == topology.hosts:
        link = (one, other) if (one, other) in graph.links else (other, one)
        nic, port = divmod(graph.of(end).index(link), topology.ports)
        return "port", (number, nic, port)
    if ends == topology.hosts * topology.nics:
        return "port", (*divmod(number, topology.nics), 0)
    many = f"{topology.hosts} hosts or {topology.hosts * topology.nics} NICs"
    raise InputErrors([f"{line}: its topology has {ends} hosts, {topology.name} {many}"])


def _uplink(graph: Graph, one: int, other: int, line: str) -> tuple[int, int]:
    tors = graph.tors()
    if (one in tors) == (other in tors):
        raise InputErrors([f"{line}: {one} and {other} are no ToR and spine"])
    tor, spine = (one, other) if one in tors else (other, one)
    spines = [switch for switch in graph.switches if switch not in tors]
    return spines.index(spine), tors.index(tor)
