"""A controller of the dead-man tests: breaks one host, says `active`, and waits to be killed or told to heal.

Arguments: inventory (or vm:NAME, a vm lab that is up), host, time to live, and what, with commas:
`rate` (of eth0), `address` (of eth1), `link` (of eth2), `stop`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from chaos.deadman.switch import DeadMan
from chaos.experiment.planned import PlannedFault
from chaos.faults import registry
from chaos.faults.example import ExampleNic
from chaos.faults.fault import Fault
from chaos.faults.registry import spec_of
from chaos.faults.spec import FaultSpec
from chaos.record.journal import Journal
from chaos.run.actors import Actors
from chaos.run.injector import Injector
from harness.errors import R2ccError
from harness.hosts import Host
from harness.hosts.lease import hold
from harness.sites.inventory import parse
from harness.vmlab.lab import VmLab

SILENCE_S, OF_TTL = 5.0, 0.2
"""Emulated machines are slow: the time to live says how slow."""


def fault_of(what: str, host: str, nic: ExampleNic) -> tuple[FaultSpec, Fault, tuple[tuple[str, str], ...]]:
    where = {"rank": 0} if what == "stop" else {"host": host, "nic": nic.name}
    kind = {"address": "address_removed", "link": "link_down", "stop": "stop", "rate": "rate"}[what]
    more = {"fraction": 0.5} if what == "rate" else {}
    spec = spec_of({"id": what, "kind": kind, **where, **more, "at": {"iteration": 1}, "duration_s": 0.5})
    nics = () if what == "stop" else (nic,)
    return spec, registry.fault_of(spec, nics, host), tuple((one.host, one.name) for one in nics)


def nic_of(what: str, host: str) -> ExampleNic:
    rail = {"rate": 0, "address": 1, "link": 2}.get(what, 0)
    return ExampleNic(host, f"eth{rail}", f"10.{rail + 1}.0.{int(host[1:]) + 1}", "")


def is_vm(inventory: str) -> bool:
    return inventory.startswith("vm:")


@contextmanager
def opened(inventory: str, host: str) -> Iterator[Mapping[str, Host]]:
    if is_vm(inventory):
        yield {host: VmLab.attach(inventory.removeprefix("vm:")).hosts[host]}
        return
    with parse(f"{inventory}:{host}") as site, site.connected() as hosts:
        yield hosts


def main(inventory: str, host: str, ttl: str, faults: str) -> None:
    file = Path("/dev/null") if is_vm(inventory) else Path(inventory).parent / f"journal-{host}-{os.getpid()}.jsonl"
    with (
        opened(inventory, host) as hosts,
        hold(hosts, silence_s=max(SILENCE_S, OF_TTL * float(ttl)) if is_vm(inventory) else SILENCE_S),
        Journal(file) as journal,
        ExitStack() as stack,
    ):
        rank = hosts[host].spawn(["sleep", "300"]) if "stop" in faults else None
        actors = Actors(None, hosts, lambda _: rank, lambda _: hosts[host])  # type: ignore[arg-type,return-value]
        deadman = DeadMan(hosts, margin_s=float(ttl) - 0.5)
        injector = Injector(actors, journal, stack, lambda line: None, deadman)
        for note in deadman.clear():
            print(note, flush=True)
        for what in faults.split(","):
            spec, fault, places = fault_of(what, host, nic_of(what, host))
            injector.arm(PlannedFault(spec, fault, places, host))
        for what in faults.split(","):
            injector.strike(what, 0)
        print("active", rank.pid if rank else 0, flush=True)
        line = sys.stdin.readline()
        if not line:
            time.sleep(60)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except R2ccError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        sys.exit(error.exit_code)
