"""The hosts of a Slurm allocation, as its environment names them. Nothing is asked of Slurm."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from harness.errors import InputErrors, UsageError
from harness.hosts.survey import Survey
from harness.sites.cluster import ClusterSite
from harness.sites.inventory_file import ClusterHost
from harness.sites.ranges import expand
from harness.sites.surveyed import DATA, MANAGEMENT, Surveyed, is_ipv4
from harness.workloads.interfaces import chosen

COUNT = re.compile(r"(\d+)(?:\(x(\d+)\))?")
ASKED_FOR = ("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE")
NOT_THESE = "^docker,virbr"
"""Bridges for containers and guests, which NCCL passes over as well."""
HINT = "get one first: salloc --nodes=2 --ntasks-per-node=1, or put the command into a script for sbatch"

GPUS_HINT = (
    "ask Slurm by --gpus-per-node=N: by --gpus nodes may get different numbers, and of --gres a shell of salloc is "
    "told nothing"
)


@dataclass(frozen=True)
class Allocation:
    """What Slurm gave this job: its hosts in Slurm's order, which is the order of ranks."""

    job: str
    hosts: tuple[str, ...]
    tasks: Mapping[str, int] | None = None
    """Of each host, where the user asked Slurm for some; else they are as many as CPUs, or anything."""
    gpus: int | None = None
    """Of each host."""


class SlurmSite(ClusterSite):
    """`slurm`: the hosts of the allocation that we are in, reached as `~/.ssh/config` says."""

    def __init__(self, text: str = "slurm") -> None:
        super().__init__(text, Path())

    @cached_property
    def members(self) -> list[ClusterHost]:
        return hosts(os.environ)

    def surveyed(self) -> Surveyed:
        """InputErrors, besides, for hosts of which no NIC is left to carry data."""
        if self._surveyed is None:
            found = super().surveyed()
            self.members = [_with_nics(host, found.surveys[host.name]) for host in self.members]
            self._surveyed = replace(found, hosts=tuple(self.members))
        return self._surveyed

    def usable(self) -> tuple[list[ClusterHost], Mapping[str, InputErrors]]:
        return self.members, {}


def _with_nics(host: ClusterHost, survey: Survey) -> ClusterHost:
    """Nobody says which NICs carry data: those that NCCL is told to use, else all but the one that we come in by."""
    management = tuple(name for name, address in survey.nics.items() if address == survey.address)
    usable = [name for name, address in survey.nics.items() if is_ipv4(address) and name not in management]
    data = chosen(os.environ.get("NCCL_SOCKET_IFNAME") or NOT_THESE, usable)
    return replace(host, nics={DATA: tuple(data), MANAGEMENT: management})


def allocation(environment: Mapping[str, str]) -> Allocation:
    """Of the job that we are in. UsageError outside of one, and where its variables cannot be understood."""
    job = environment.get("SLURM_JOB_ID") or environment.get("SLURM_JOBID")
    nodes = environment.get("SLURM_JOB_NODELIST") or environment.get("SLURM_NODELIST")
    if not job or not nodes:
        missing = "SLURM_JOB_ID" if not job else "SLURM_JOB_NODELIST"
        raise UsageError(f"this is no Slurm allocation: {missing} is not set", HINT)
    try:
        names = expand(nodes)
    except ValueError as error:
        raise UsageError(f"SLURM_JOB_NODELIST cannot be understood: {error}", "scontrol show hostnames") from error
    gpus, text = gpus_of_node(environment, len(names)), environment.get("SLURM_TASKS_PER_NODE")
    if not text or not any(name in environment for name in ASKED_FOR):
        return Allocation(job, tuple(names), None, gpus)
    tasks = tasks_per_node(text)
    if len(tasks) != len(names):
        raise UsageError(f"SLURM_TASKS_PER_NODE ('{text}') is of {len(tasks)} hosts, and there are {len(names)}", HINT)
    return Allocation(job, tuple(names), dict(zip(names, tasks, strict=True)), gpus)


def hosts(environment: Mapping[str, str], *, home: Path | None = None) -> list[ClusterHost]:
    """The allocation's hosts as an inventory has them, reached as `~/.ssh/config` says; nobody says which NICs they
    have. UsageError as `allocation`."""
    from harness.hosts.ssh.options import users_config
    from harness.hosts.ssh.target import Asked, Target, resolve_all

    found = allocation(environment)
    options = users_config(home or Path.home())
    targets = resolve_all([Asked(name) for name in found.hosts], options)
    for wrong in (each for each in targets if isinstance(each, UsageError)):
        raise wrong
    return [ClusterHost(target, {}, found.gpus, {}) for target in targets if isinstance(target, Target)]


def tasks_per_node(text: str) -> list[int]:
    """`2(x3),1` is [2, 2, 2, 1]. UsageError for anything else."""
    found = [COUNT.fullmatch(part.strip()) for part in text.split(",")]
    counts = [int(each[1]) for each in found if each for _ in range(int(each[2] or 1))]
    if None in found or min(counts, default=0) < 1:
        raise UsageError(f"SLURM_TASKS_PER_NODE cannot be understood: '{text}'", "it should be like 2(x3),1")
    return counts


def gpus_of_node(environment: Mapping[str, str], nodes: int) -> int | None:
    """Of each host. None: Slurm does not say, or hosts may have different numbers.

    In a script of sbatch and in an epilog it says what this node has; in a shell of salloc, which may be on none, only
    what was asked for, and of `--gres` nothing. By `--gpus` and `--gpus-per-task` nodes get what is free there: six on
    two nodes are 5 and 1 as well as 3 and 3, though each gets one at least (Slurm 22.05)."""
    each, every = _amount(environment.get("SLURM_GPUS_PER_NODE", "")), gpus_of_job(environment)
    here = _gpus_here(environment)
    if each:
        return here or each
    if every or environment.get("SLURM_GPUS_PER_TASK"):
        if nodes == 1:
            return here or every or None
        return every // nodes if every == nodes or (nodes == 2 and every == 2 * (here or 0)) else None
    return here


def gpus_of_job(environment: Mapping[str, str]) -> int:
    """Of all hosts together, where they were asked for so (`--gpus`); else 0."""
    return _amount(environment.get("SLURM_GPUS", ""))


def _gpus_here(environment: Mapping[str, str]) -> int | None:
    """Of this node."""
    on_node = environment.get("SLURM_GPUS_ON_NODE", "")
    if on_node.isdigit() and int(on_node):
        return int(on_node)
    try:
        listed = environment.get("SLURM_JOB_GPUS")
        return len(expand(f"[{listed}]")) if listed else None
    except ValueError:
        return None


def _amount(text: str) -> int:
    """`8`, `a100:8` and `a100:4,v100:4` are 8."""
    counts = [part.rpartition(":")[2] for part in text.split(",")]
    return sum(int(count) for count in counts) if all(count.isdigit() for count in counts) else 0
