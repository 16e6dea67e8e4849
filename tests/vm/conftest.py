"""One pair of guests for all tests here, however many files they are in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.errors import LabError
from harness.vmlab.image import build as image
from harness.vmlab.lab import VmLab
from harness.vmlab.shape import Shape


@pytest.fixture(scope="session")
def lab() -> Iterator[VmLab]:
    try:
        image.require_tools()
    except LabError as error:
        pytest.skip(str(error))
    with VmLab.up(Shape(hosts=2, nics=2, ssh=True)) as made:
        assert made.warnings == []
        yield made


@pytest.fixture(autouse=True)
def healed(lab: VmLab) -> Iterator[None]:
    """Whatever a test broke is mended for the next."""
    yield
    for nic in lab.nics:
        lab.set_link(nic.switch_port, True)
        lab.switch.run(["wire", "clear", nic.switch_port])
        lab.set_address(nic, True)
