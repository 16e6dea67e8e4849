"""GPUs that are lost: whatever words nvidia-smi has for it, it is an error."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from doctor_double import patient, pci, seen

from harness.doctor.model import ERROR, WARNING
from harness.facts import NotAvailable, catalogue
from harness.facts.base import Raw
from harness.facts.nvidia import QUERY

HEAD = ", ".join(QUERY)
SOUND = "0, B200, GPU-a, 00000000:1A:00.0, 570.1, 5, 5, 16, 16, 0"
GPU_AT = "0000:1a:00.0"


def facts_of(stdout: str, exit_code: int = 0, stderr: str = "") -> dict[Any, object]:
    return {catalogue.GPUS: catalogue.GPUS.read(Raw(stdout, stderr, exit_code))}


def lost(stdout: str, exit_code: int = 0, stderr: str = "", **more: object) -> list[tuple[object, str, str]]:
    facts = facts_of(stdout, exit_code, stderr) | {getattr(catalogue, name): value for name, value in more.items()}
    return [(each[0], each[2], each[3]) for each in seen("gpu-lost", patient(facts=facts))]


def test_sound_gpus_are_not_lost() -> None:
    assert lost(f"{HEAD}\n{SOUND}\n") == []
    assert lost("No devices were found\n", 6) == []


LINES = {
    "Unable to determine the device handle for GPU 0000:5D:00.0: GPU is lost.  Reboot the system to recover this GPU": (
        "0000:5d:00.0"
    ),
    "Unable to determine the device handle for GPU0000:5D:00.0: Unknown Error": "0000:5d:00.0",
    "Unable to determine the device handle for GPU3: 0000:5D:00.0: Unknown Error": "GPU3",
    "Unable to determine the device handle for gpu 00000000:5D:00.0: ERR!": "0000:5d:00.0",
    "Unable to determine the device handle for GPU 2: Unknown Error": "GPU2",
}


@pytest.mark.parametrize("line", list(LINES))
@pytest.mark.parametrize("code", [0, 15, 255])
@pytest.mark.parametrize("more", ["", "No devices were found\n", f"{HEAD}\n{SOUND}\n"])
@pytest.mark.parametrize("to_stderr", [True, False])
def test_a_line_says_so(line: str, code: int, more: str, to_stderr: bool) -> None:
    if to_stderr and code == 0:
        return  # a tool that succeeds is taken by its output alone
    found = lost(more, code, f"{line}\n") if to_stderr else lost(f"{line}\n{more}", code)
    assert [each[:2] for each in found] == [(ERROR, LINES[line])]
    assert "has lost it: " in found[0][2]


CELLS = [
    "[GPU is lost]",
    "[Unknown Error]",
    "Unknown Error",
    "ERR!",
    "[ERR!]",
    "[GPU requires reset]",
    "[GPU Requires Reset]",
]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("column", range(len(QUERY)))
def test_a_column_says_so(cell: str, column: int) -> None:
    words = ["1", "B200", "GPU-b", "00000000:3B:00.0", "570.1", "5", "5", "16", "16", "0"]
    words[column] = cell
    found = lost(f"{HEAD}\n{SOUND}\n{', '.join(words)}\n")
    assert [each[:2] for each in found] == [(ERROR, "GPU1")]
    assert cell.strip("[]") in found[0][2]


def test_a_gpu_that_the_driver_has_and_does_not_show() -> None:
    here = {
        **{GPU_AT: pci(GPU_AT, 0x0302, vendor=0x10DE, driver="nvidia")},
        **{"0000:3b:00.0": pci("0000:3b:00.0", 0x0302, vendor=0x10DE, driver="nvidia")},
        **{"0000:4c:00.0": pci("0000:4c:00.0", 0x0302, vendor=0x10DE, driver="vfio-pci")},
    }
    assert [each[:2] for each in lost(f"{HEAD}\n{SOUND}\n", PCI=here)] == [(ERROR, "0000:3b:00.0")]
    assert [each[:2] for each in lost("No devices were found\n", 6, PCI=here)] == [(ERROR, f"{GPU_AT},0000:3b:00.0")]
    told = "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost."
    assert [each[:2] for each in lost(f"{HEAD}\n{SOUND}\n{told}\n", PCI=here)] == [(ERROR, "0000:3b:00.0")], "once"


@pytest.mark.parametrize(("code", "said"), [(124, "no answer within 20 s"), (9, "couldn't communicate")])
def test_a_tool_that_fails_is_an_error_where_there_is_a_gpu(code: int, said: str) -> None:
    text = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    there = {GPU_AT: pci(GPU_AT, 0x0302, vendor=0x10DE, driver="nvidia")}
    found = lost(text, code, PCI=there)
    assert found[0][0] is ERROR and said in found[0][2]
    unbound = {GPU_AT: pci(GPU_AT, 0x0302, vendor=0x10DE)}
    assert [each[0] for each in lost(text, code, PCI=unbound)] == [WARNING]
    assert lost(text, code, PCI={"b": pci("0000:01:00.0", 0x0200)}) == [], "a machine without a GPU"


@pytest.mark.parametrize(("said", "found"), [(1, []), (0, []), (None, []), (2, [(ERROR, "")])])
def test_fewer_than_the_inventory_says(said: int | None, found: list[tuple[object, str]]) -> None:
    host = patient(facts=facts_of(f"{HEAD}\n{SOUND}\n"), gpus=said)
    assert [(each[0], each[2]) for each in seen("gpu-lost", host)] == found


def test_no_tool_is_no_lost_gpu() -> None:
    missing = {catalogue.GPUS: NotAvailable("nvidia-smi", "the driver")}
    assert seen("gpu-lost", patient(facts=missing)) == []
    assert seen("gpu-lost", patient()) == []
