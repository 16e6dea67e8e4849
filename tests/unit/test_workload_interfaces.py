"""NCCL_SOCKET_IFNAME as NCCL reads it."""

from __future__ import annotations

import pytest

from harness.workloads.interfaces import chosen

NAMES = ["lo", "eth0", "eth1", "eth10", "ens1f0", "mgmt0"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("eth", ["eth0", "eth1", "eth10"]),
        ("eth1", ["eth1", "eth10"]),
        ("=eth1", ["eth1"]),
        ("=eth1,ens1f0", ["ens1f0", "eth1"]),
        ("^lo,eth1", ["ens1f0", "eth0", "mgmt0"]),
        ("^=lo,eth1", ["ens1f0", "eth0", "eth10", "mgmt0"]),
        ("=eth0:1,absent", ["eth0"]),
        ("", []),
    ],
)
def test_names_and_prefixes(words: str, found: list[str]) -> None:
    assert chosen(words, NAMES) == found
