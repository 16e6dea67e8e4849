"""A vm lab that is up: its guests, its switch, its NICs; how it is brought up, found, broken and mended."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from harness.errors import UsageError
from harness.lab import state
from harness.lab.lab import Nic
from harness.lab.launch import Up, start_keeper
from harness.progress import Progress, silent
from harness.repo import Layout, checkout
from harness.vmlab import ssh, tools, wire
from harness.vmlab.host import VmHost
from harness.vmlab.image import build as image
from harness.vmlab.shape import ENGINES, MGMT_NIC, SSH_NIC, Shape
from harness.vmlab.uml import kernel as uml

READY_LIMIT_S = 180.0
OWNED_TTL_S = 4 * 3600.0
"""The hard limit of a lab that an experiment owns: no guest is emulated for ever because somebody hangs."""
KEPT_LOGS = 8
NOMINAL_GBIT = 0.5
Direction = Literal["from", "to", "both"]
_serial = itertools.count()


@dataclass(frozen=True)
class VmLab(Up):
    """A running lab of guests. One from `up` without a time to live dies with this process, however that ends."""

    name: str
    folder: Path
    shape: Shape
    hosts: dict[str, VmHost]
    switch: VmHost
    nics: list[Nic]
    warnings: list[str]
    keeper: subprocess.Popen[bytes] | None = None

    @classmethod
    def up(
        cls, shape: Shape, *, ttl_s: float | None = None, name: str | None = None, progress: Progress = silent
    ) -> VmLab:
        """Builds what is missing, then boots the guests; returns when all have their NICs and RDMA devices.

        Raises LabError with a remedy or with a guest's last words, UsageError when the name is taken.
        """
        label = name or f"vm-{os.getpid()}-{next(_serial)}"
        task = _task(checkout(), shape, label, ttl_s, progress)
        with progress("booting the guests"):
            keeper, answer = start_keeper("harness.vmlab.keeper", task, READY_LIMIT_S + 10)
        if ttl_s is not None:
            keeper.returncode = 0  # it is nobody's child from now on: do not warn that it still runs
        return _lab(label, answer, shape, keeper if ttl_s is None else None)

    @classmethod
    def attach(cls, name: str) -> VmLab:
        """A vm lab that some other process brought up. Raises UsageError when there is none of that name."""
        found = next((s for s in state.living() if s["name"] == name and s.get("kind") in ENGINES), None)
        if found is None:
            raise UsageError(f"no vm lab named '{name}' is up", "r2cc lab up --kind vm")
        return _lab(name, found, Shape(**found["shape"]), None)

    @property
    def inventory_file(self) -> Path:
        """For `--inventory`: the guests as hosts over SSH. It goes with the lab. UsageError when they have no sshd."""
        if not self.shape.ssh:
            raise UsageError(f"the guests of '{self.name}' have no SSH server", "r2cc lab up --kind vm --ssh")
        return self.folder / ssh.INVENTORY

    def cut_ssh(self, host: str, cut: bool = True) -> None:
        """Takes away the network over which a guest is reached by SSH, without a word to either side; or mends it."""
        self.switch.run(["link", f"{host}-{SSH_NIC}", "down" if cut else "up"])

    def set_link(self, port: str, up: bool) -> None:
        """Plugs a NIC's cable in or out: its guest sees the carrier come or go, its peers see nothing."""
        self.switch.run(["link", port, "up" if up else "down"])

    def black_hole(self, port: str, on: bool, direction: Direction = "both") -> None:
        """Loses every frame from or to a NIC, or both; nobody gets an event."""
        self.switch.run(["wire", "set", port, direction, "drop", "on" if on else "off"])

    def lose(self, port: str, fraction: float, direction: Direction = "both") -> None:
        """Loses a share of the frames, in the middle; 0 ends it."""
        self.switch.run(["wire", "set", port, direction, "loss", f"{fraction:g}"])

    def limit(self, port: str, rate_bps: int, direction: Direction = "both") -> None:
        """Holds a NIC to a rate; 0 ends it."""
        self.switch.run(["wire", "set", port, direction, "rate", str(rate_bps)])

    def set_address(self, nic: Nic, present: bool) -> None:
        """Takes the NIC's address away inside its guest (and with it the RDMA device's GID), or gives it back."""
        word = "replace" if present else "del"
        self.hosts[nic.host].run(["ip", "addr", word, f"{nic.address}/24", "dev", nic.name])

    def wire_state(self) -> dict[str, Any]:
        """Every port's faults and counters."""
        shown: dict[str, Any] = json.loads(self.switch.run(["wire", "show"]).stdout)
        return shown


def _task(layout: Layout, shape: Shape, label: str, ttl_s: float | None, progress: Progress) -> dict[str, Any]:
    """Everything the keeper needs, with image and wire built."""
    tools.require(shape.engine)
    cache = layout.cache / "vm"
    kernel = uml.ensure(cache, progress) if shape.engine == "uml" else None
    made = image.ensure(cache, progress=progress)
    program = wire.ensure_built(layout.native / "wire", cache)
    return {
        "name": label,
        "owner_pid": os.getpid() if ttl_s is None else None,
        "ttl_s": OWNED_TTL_S if ttl_s is None else ttl_s,
        "ready_s": READY_LIMIT_S,
        "shape": asdict(shape),
        "image": str(made.folder),
        "uml": kernel and str(kernel),
        "wire": str(program),
        "logs": str(_log_folder(cache / "logs", label)),
        "share": str(layout.root),
    }


def _log_folder(parent: Path, label: str) -> Path:
    """A fresh folder for the consoles; they outlive the lab, the oldest are removed."""
    folder = parent / label
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    others = sorted((path for path in parent.iterdir() if path != folder), key=lambda path: path.stat().st_mtime)
    for path in others[: -(KEPT_LOGS - 1)]:
        shutil.rmtree(path, ignore_errors=True)
    return folder


def _lab(name: str, answer: Mapping[str, Any], shape: Shape, keeper: subprocess.Popen[bytes] | None) -> VmLab:
    folder = Path(answer["folder"])
    data = [port for port in shape.ports() if port.nic != MGMT_NIC]
    nics = [Nic(port.host, port.nic, port.rail, port.address, NOMINAL_GBIT, port.name) for port in data]
    hosts = {host: VmHost(host, folder) for host in shape.host_names()}
    return VmLab(name, folder, shape, hosts, VmHost("switch", folder), nics, list(answer["warnings"]), keeper)
