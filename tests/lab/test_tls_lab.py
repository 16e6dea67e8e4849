"""What somebody who listens on the rails can read of the data: all of it, and with R2CC_TLS=1 nothing."""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.build import build_net, run_target
from harness.progress import silent

sys.path.insert(0, str(Path(__file__).parent))
from netcases.bed import DATA, Bed
from netcases.play import Stage, made, stage
from netcases.tls import ON, secret

pytestmark = [pytest.mark.lab, pytest.mark.build, pytest.mark.timeout(240)]

TAPPED = [sys.executable, str(Path(__file__).with_name("tapped.py"))]
MOST_MB = 24
MIX = 0x9E3779B97F4A7C15
"""As net_driver fills its messages (tests/driver/flow.cc)."""
MESSAGES = range(1, 400)


def words(message: int) -> bytes:
    """Eight words out of the middle of a message."""
    start = (message + 1) * MIX
    return struct.pack("<8Q", *((start + at) % 2**64 for at in range(100, 108)))


def heard(bed: Bed, on: Stage, env: Mapping[str, str]) -> bytes:
    """What passed the receiver's NICs while messages went over them, one NIC after the other."""
    file = on.folder / f"tapped-{len(env)}"
    listener = bed.host("h1").spawn([*TAPPED, str(file), str(MOST_MB), *DATA])
    assert listener.stdout is not None and b"listens" in listener.stdout.readline()
    pair = on.pair(bed, "--seconds", 2, env=env)
    if pair.connected():
        pair.at(0.4, lambda: bed.cut("eth0"))
    both = pair.end()
    bed.plug("eth0")
    listener.kill()
    listener.wait(10)
    assert both.exact() == []
    return file.read_bytes()


def test_with_tls_nobody_reads_what_passes() -> None:
    library = build_net(progress=silent).library
    run_target("driver", silent)
    with stage(library.with_name("net_driver"), library, 1) as on, made() as bed:
        plain = heard(bed, on, {})
        found = [message for message in MESSAGES if words(message) in plain]
        assert len(found) > 10, "else nothing would be found below, either"
        for env in (ON, secret(on, "s")):
            encrypted = heard(bed, on, env)
            assert len(encrypted) > len(plain) // 4
            assert [message for message in MESSAGES if words(message) in encrypted] == []
