"""Faults in formats of others, read as traces of ours; each module names where its format is documented."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from chaos.simulate.cluster.topology import Topology
from chaos.simulate.faults.trace import LARGEST, Trace
from harness.config.files import input_of
from simulated import hpcc, infinitehbd

Format = Literal["infinitehbd", "hpcc"]


def load(form: Format, path: Path, topology: Topology, *, seed: int = 0, everything: bool = False) -> Trace:
    """A trace for `topology`. `seed`: of what the format leaves open; `everything`: faults beside the network's, too.

    Raises UsageError for a file that cannot be read, InputErrors with every bad line.
    """
    text = input_of(path, "the trace", "give a file of the format that was named", LARGEST)
    if form == "hpcc":
        return hpcc.parse(text, path, topology)
    return infinitehbd.parse(text, str(path), topology, seed=seed, everything=everything)
