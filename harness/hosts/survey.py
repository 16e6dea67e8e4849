"""What an experiment has to know of a host before it runs there; one command on each, all at once. Changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import Any

from harness.errors import InfraError
from harness.hosts import survey_rdma
from harness.hosts.base import Host
from harness.hosts.parallel import all_of
from harness.repo import OF_ELF

LIMIT_S = 30.0
UNKNOWN = "UNKNOWN"
"""What sshd says of its own end where that is no socket, as behind some ProxyCommands."""
SCRIPT = r"""
PATH=$PATH:/usr/sbin:/sbin
case $1 in "~/"*) prefix=$HOME/${1#"~/"} ;; *) prefix=$1 ;; esac
say() { printf '\n=== %s\n' "$1"; }
say prefix; printf '%s' "$prefix"
say connection; printf '%s' "$SSH_CONNECTION"
say settings; env | sed -n 's/^\(NCCL_[A-Za-z0-9_]*\)=.*/\1/p; s/^\(R2CC_[A-Za-z0-9_]*\)=.*/\1/p'
say addresses; ip -j addr show
say rdma
RDMA
say cpu; sed -n '/^model name/{p;q;}' /proc/cpuinfo || uname -m
say cores; getconf _NPROCESSORS_ONLN 2>/dev/null || nproc
say memory; sed -n '/^MemTotal:/p' /proc/meminfo
say kernel; uname -r
say machine; uname -m
say built; od -An -tu2 -j18 -N2 "$prefix/current/lib/libr2cc_net.so"
say build; cat "$prefix/current/build.json"
say end
""".replace("RDMA", survey_rdma.SCRIPT.strip())


@dataclass(frozen=True)
class Survey:
    """What one host said."""

    prefix: str
    """Where `r2cc deploy` puts builds, as an absolute path."""
    address: str
    """Its own end of the SSH connection; empty when it is not reached over SSH."""
    settings: tuple[str, ...]
    """Variables that every login there sets and that would change what NCCL or R2CC does."""
    nics: Mapping[str, str]
    """The first IPv4 address of every interface; where it has none, the first of IPv6 that is not link-local."""
    devices: Mapping[str, str]
    """RDMA device by interface."""
    cpu: str
    cores: int
    memory_bytes: int
    kernel: str
    build: Mapping[str, Any] | None
    """build.json of what is deployed; None: nothing is."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Port of that device by interface, where the device has several or it is not the first."""

    alien: str = ""
    """The kind of CPU for which what is deployed was built, where this host's is of another."""

    @property
    def build_id(self) -> str | None:
        return None if self.build is None else str(self.build.get("build_id"))


def survey(hosts: Mapping[str, Host], prefixes: Mapping[str, str]) -> dict[str, Survey]:
    """All hosts' surveys. InfraError naming every host that could not be asked."""
    work = {name: partial(_ask, host, prefixes[name]) for name, host in hosts.items()}
    return all_of(work, "r2cc hosts check says how every host is reached")


def _ask(host: Host, prefix: str) -> Survey:
    answer = host.run(["sh", "-c", SCRIPT, "survey", prefix], timeout_s=LIMIT_S, check=False)
    try:
        return parse(answer.stdout)
    except (ValueError, KeyError, TypeError) as error:
        said = answer.stderr.strip().splitlines()[-3:]
        raise InfraError(
            f"{host.name}: cannot be surveyed: {error}" + "".join(f"\n  | {line}" for line in said),
            "its shell, `ip` (iproute2) and /proc are needed there",
        ) from error


def parse(text: str) -> Survey:
    """From what the script prints. ValueError, KeyError or TypeError when it is cut short or no such text."""
    parts = re.split(r"^=== (\w+)\n", text, flags=re.MULTILINE)
    said = {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    if "end" not in said:
        raise ValueError("its answer is cut short")
    connection, lines = said["connection"].split(), said["rdma"].splitlines()
    return Survey(
        said["prefix"],
        connection[2] if len(connection) == 4 and connection[2] != UNKNOWN else "",
        tuple(said["settings"].split()),
        _nics(json.loads(said["addresses"])),
        _devices(lines),
        said["cpu"].partition(":")[2].strip() or said["cpu"],
        int(said["cores"]),
        int(said["memory"].split()[1]) * 1024,
        said["kernel"],
        json.loads(said["build"]) if said["build"].startswith("{") else None,
        _ports(lines),
        _alien(said["machine"], said["built"]),
    )


def _alien(machine: str, built: str) -> str:
    found = OF_ELF.get(built.strip(), "")
    return found if found != machine else ""


def _nics(links: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    found = {}
    for link in links:
        told = [each for each in link.get("addr_info", []) if "local" in each and not _is_near(each["local"])]
        first = {each["family"]: str(each["local"]) for each in reversed(told) if "family" in each}
        if first and "LOOPBACK" not in link.get("flags", []):
            found[str(link["ifname"])] = first.get("inet") or next(iter(first.values()))
    return found


def _is_near(address: str) -> bool:
    """Of IPv6, and known on its own link alone."""
    found = ip_address(address)
    return found.version == 6 and found.is_link_local


def _devices(lines: Sequence[str]) -> dict[str, str]:
    return {nic: port.device for nic, port in survey_rdma.read(lines).items()}


def _ports(lines: Sequence[str]) -> dict[str, int]:
    found = survey_rdma.read(lines).items()
    return {nic: port.number for nic, port in found if port.several or port.number != 1}
