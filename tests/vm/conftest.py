"""One pair of guests for all tests here, however many files they are in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import LabError
from harness.vmlab import tools
from harness.vmlab.lab import VmLab
from harness.vmlab.shape import ENGINES, Shape

ENGINE = next(engine for engine in ENGINES if engine == os.environ.get("R2CC_TEST_ENGINE", "vm"))
"""What runs the guests of these tests. User Mode Linux (`uml`) is many times quicker once its kernel is compiled."""
GUARD_S = 600
"""Against a hang. Each wait here has a bound of its own that follows how slow guests are, and the first test of a
session boots them: 46 s at a load of 11 on two cores."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(GUARD_S))


@pytest.fixture(scope="session")
def lab() -> Iterator[VmLab]:
    try:
        tools.require(ENGINE)
    except LabError as error:
        pytest.skip(str(error))
    with VmLab.up(Shape(hosts=2, nics=2, ssh=ENGINE == "vm", engine=ENGINE)) as made:
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
