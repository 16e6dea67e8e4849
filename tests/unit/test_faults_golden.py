"""Golden commands: every fault inside a host, for each kind of host. `python THIS_FILE` writes them anew.

What a host says is in `tests/data/golden-faults/KIND/`: recorded in a guest (virtio), or written by hand in the form
that iproute2 and infiniband-diags print (the others: no such machine is at hand).
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from chaos.faults import registry
from chaos.faults.example import ExampleNic
from chaos.faults.kinds.load import HELPER
from chaos.faults.parts.keep import shortened
from chaos.faults.registry import fault_of, kinds
from chaos.faults.spec import FaultSpec
from chaos.faults.steps import Command, Step
from harness.hosts import Result

DATA = Path(__file__).resolve().parents[1] / "data" / "golden-faults"
HOSTS = ("mlx5", "ethernet", "infiniband", "vf", "virtio")
PLACE = {"nics": ("host", "nic"), "rail": ("rail",), "rank": ("rank",), "host": ("host",)}


def cases() -> Iterator[tuple[str, str | None]]:
    """In the order of the files that are there; what is new comes last."""
    there = re.findall(r"^== (\w+)", (DATA / HOSTS[0] / "commands.txt").read_text(), re.MULTILINE)
    for kind in dict.fromkeys([*there, *kinds()]):
        yield from ((kind, method) for method in methods_of(kind))


def methods_of(kind: str) -> tuple[str | None, ...]:
    """In how many ways it can be done inside a host; the first one if nothing is said. None alone: there is one."""
    field = kinds()[kind].Settings.model_fields.get("method")
    ways = () if field is None else get_args(get_args(field.annotation)[0])
    return ways or (None,)


def spec_of(kind: str, method: str | None, nic: str) -> FaultSpec:
    words: dict[str, Any] = {"id": "f", "kind": kind, "at": {"iteration": 3}, "duration_s": 1.0, "method": method}
    words |= {"host": "n1", "nic": nic, "rail": 0, "rank": 1}
    words = {
        k: v
        for k, v in words.items()
        if k not in ("host", "nic", "rail", "rank") or k in PLACE[kinds()[kind].Settings.where]
    }
    for unused in ("duration_s",) * (not kinds()[kind].Settings.timed) + ("method",) * (method is None):
        del words[unused]
    own = {**kinds()[kind].example, **({"fraction": 0.25} if kind == "rate" else {})}
    return registry.spec_of({**words, **own})


def answer(step: Step, folder: Path) -> Result:
    """What this kind of host says to a fault's question."""
    text, kind = step.text(), folder.name
    nic = (folder / "nic.txt").read_text().split()[0]
    if "say links" in text:
        return Result((), 0, (folder / "record.txt").read_text())
    if "virtfn" in text:
        file = folder / "functions.txt"
        return Result((), 0, file.read_text() if file.exists() else f"{nic} none none -1\nlinks\n[]\n")
    short = {
        "SSH_CONNECTION": "192.0.2.9 50122 192.0.2.11 22",
        "ip_local_port_range": "32768\t60999\n",
        "ip -j -d link show": f'[{{"ifname": "{nic}", "mtu": 9000, "gso_max_segs": 65535}}]',
    }
    if found := [said for words, said in short.items() if words in text]:
        return Result((), 0, found[0])
    if "infiniband" in text:
        devices = {"mlx5": "mlx5_0", "infiniband": "mlx5_0", "vf": "mlx5_3", "virtio": "rxe1"}
        return Result((), 0, f"{devices.get(kind, 'none')}\n")
    assert text.startswith("nft -c "), text
    return Result((), 1 if kind == "ethernet" else 0)  # an old kernel, without egress hook


def shown(steps: Sequence[Step]) -> str:
    lines = []
    for step in steps:
        text = re.sub(r"r2cc-(qp|clock|faults)-\d+", r"r2cc-\1-PID", step.text()).replace(
            shlex.quote(str(HELPER)), "HELPER"
        )
        lines.append(f"{step.on if isinstance(step, Command) else '-'} $ {shortened(text)}")
    return "\n".join(lines) or "-"


def golden(kind: str) -> str:
    folder, parts = DATA / kind, []
    name, address = (folder / "nic.txt").read_text().split()
    for fault_kind, method in cases():
        spec = spec_of(fault_kind, method, name)
        nics = [ExampleNic("n1", name, address, "")] if spec.where in ("nics", "rail") else []
        fault = fault_of(spec, nics, "n1")
        title = f"== {fault_kind}" + (f" ({method})" if method else "")
        try:
            fault = fault.knowing([answer(step, folder) for step in fault.facts()])
        except ValueError as error:
            parts.append(f"{title}\nrefused: {error}\n")
            continue
        steps = {"inject": fault.inject(), "revert": fault.revert(), "probe": fault.probe()}
        parts.append(f"{title}\n" + "".join(f"{what}: {shown(found)}\n" for what, found in steps.items()))
    return "\n".join(parts)


@pytest.mark.parametrize("kind", HOSTS)
def test_commands_are_the_golden_ones(kind: str) -> None:
    assert golden(kind) == (DATA / kind / "commands.txt").read_text()


def test_undoing_leaves_no_word_open() -> None:
    """What a dry run shows in place of recorded values never reaches a host that was asked."""
    for kind in HOSTS:
        assert not re.search(r"RECORDED|PCI-ADDRESS|\bFULL\b|LOW-HIGH|DEVICE\b|MBIT", golden(kind)), kind


if __name__ == "__main__":
    os.chdir(DATA)
    for each in HOSTS:
        (DATA / each / "commands.txt").write_text(golden(each))
