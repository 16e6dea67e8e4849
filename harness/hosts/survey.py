"""What an experiment has to know of a host before it runs there; one command on each, all at once. Changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.errors import InfraError
from harness.hosts.base import Host
from harness.hosts.parallel import on_all

LIMIT_S = 30.0
SCRIPT = r"""
PATH=$PATH:/usr/sbin:/sbin
case $1 in "~/"*) prefix=$HOME/${1#"~/"} ;; *) prefix=$1 ;; esac
say() { printf '\n=== %s\n' "$1"; }
say prefix; printf '%s' "$prefix"
say connection; printf '%s' "$SSH_CONNECTION"
say settings; env | sed -n 's/^\(NCCL_[A-Za-z0-9_]*\)=.*/\1/p; s/^\(R2CC_[A-Za-z0-9_]*\)=.*/\1/p'
say addresses; ip -j addr show
say rdma
for device in /sys/class/infiniband/*; do
  [ -e "$device" ] && printf '%s %s\n' "${device##*/}" "$(cat "$device/ports/1/gid_attrs/ndevs/0")"
done
say cpu; sed -n '/^model name/{p;q;}' /proc/cpuinfo || uname -m
say cores; getconf _NPROCESSORS_ONLN 2>/dev/null || nproc
say memory; sed -n '/^MemTotal:/p' /proc/meminfo
say kernel; uname -r
say build; cat "$prefix/current/build.json"
say end
"""


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
    """IPv4 address of every interface that has one; the first one."""
    devices: Mapping[str, str]
    """RDMA device by interface."""
    cpu: str
    cores: int
    memory_bytes: int
    kernel: str
    build: Mapping[str, Any] | None
    """build.json of what is deployed; None: nothing is."""

    @property
    def build_id(self) -> str | None:
        return None if self.build is None else str(self.build.get("build_id"))


def survey(hosts: Mapping[str, Host], prefixes: Mapping[str, str]) -> dict[str, Survey]:
    """All hosts' surveys. InfraError naming every host that could not be asked."""
    outcomes = on_all({name: partial(_ask, host, prefixes[name]) for name, host in hosts.items()})
    errors = [str(outcome.error) for outcome in outcomes.values() if outcome.error is not None]
    if errors:
        raise InfraError("\n".join(errors), "r2cc hosts check says how every host is reached")
    return {name: outcome.value for name, outcome in outcomes.items() if outcome.value is not None}


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
    connection = said["connection"].split()
    return Survey(
        said["prefix"],
        connection[2] if len(connection) == 4 else "",
        tuple(said["settings"].split()),
        _nics(json.loads(said["addresses"])),
        _devices(said["rdma"].splitlines()),
        said["cpu"].partition(":")[2].strip() or said["cpu"],
        int(said["cores"]),
        int(said["memory"].split()[1]) * 1024,
        said["kernel"],
        json.loads(said["build"]) if said["build"].startswith("{") else None,
    )


def _nics(links: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    found = {}
    for link in links:
        addresses = [each["local"] for each in link.get("addr_info", []) if each.get("family") == "inet"]
        if addresses and "LOOPBACK" not in link.get("flags", []):
            found[str(link["ifname"])] = str(addresses[0])
    return found


def _devices(lines: Sequence[str]) -> dict[str, str]:
    """Lines are `DEVICE INTERFACE`; InfiniBand without an interface has the device alone."""
    pairs = [line.split() for line in lines]
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2}
