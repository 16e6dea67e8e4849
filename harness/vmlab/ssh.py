"""Guests over SSH: the lab's own key, and an inventory file with where each guest's sshd is and which key it has."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from harness.config import yaml_text
from harness.errors import LabError
from harness.vmlab.monitor import Monitor
from harness.vmlab.shape import MGMT_NIC, Shape

ADDRESS = "127.0.0.1"
KEY, KNOWN_HOSTS, INVENTORY = "ssh_key", "known_hosts", "inventory.yaml"
FORWARDED = re.compile(r"^\s*TCP\[HOST_FORWARD\]\s+\S+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+22\s", re.MULTILINE)


def make_key(folder: Path) -> str:
    """A new user's key in the lab's folder; what is public of it, as authorized_keys has it after the type."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    fd = os.open(folder / KEY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode().split()[1]


def forwarded_port(name: str, monitor: Monitor) -> int:
    """Which of this machine's ports QEMU took: it was told to take a free one. LabError when it has none."""
    text = str(monitor.ask("human-monitor-command", **{"command-line": "info usernet"}))
    found = FORWARDED.search(text)
    if found is None:
        raise LabError(f"{name}: QEMU forwards no port to its sshd", f"it says: {text.strip()[:200]}")
    return int(found[1])


def write_inventory(folder: Path, shape: Shape, ports: Mapping[str, int], host_keys: Mapping[str, str]) -> Path:
    """The inventory file of all guests, with known_hosts beside it; both go with the lab's folder."""
    lines = [f"[{ADDRESS}]:{port} {host_keys[name]}\n" for name, port in ports.items()]
    (folder / KNOWN_HOSTS).write_text("".join(lines))
    data = "eth0" if shape.nics == 1 else f"eth[0-{shape.nics - 1}]"
    document = {
        "schema": 1,
        "name": "vm",
        "defaults": {
            "user": "root",
            "key": str(folder / KEY),
            "jump": "none",
            "known_hosts": str(folder / KNOWN_HOSTS),
            "nics": {"data": data, "management": MGMT_NIC},
            "gpus": 0,
        },
        "hosts": [{"name": name, "address": ADDRESS, "port": port} for name, port in ports.items()],
    }
    (folder / INVENTORY).write_text(yaml_text.dumped(document))
    return folder / INVENTORY
