"""How long commands take on many hosts: connecting, deploying, again with nothing to do, examining.

    .venv/bin/python benchmarks/many_hosts.py [--hosts 64] [--json]

Hosts of the lab, each with an sshd, an address and a host key of its own, all on this machine: their work takes the
controller's cores, too. The controller is the first of them. Takes root and openssh-server. A command that fails on
one host ends the benchmark.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import click
from common import R2CC, Benchmark, Figure, finish, json_option

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "lab"))
import ssh_lab

from harness.build import build_net
from harness.errors import InfraError, UsageError
from harness.hosts import Host
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent

LIMIT_S = 300.0
FINDINGS = (0, 1)
"""Exit codes of doctor that say that every host was examined."""


def took_s(controller: Host, *words: str, fine: tuple[int, ...] = (0,)) -> float:
    """Of a whole command of the user's. InfraError unless it ends with one of `fine`."""
    started = time.perf_counter()
    done = controller.run([str(R2CC), *words], timeout_s=LIMIT_S, check=False)
    if done.exit_code not in fine:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise InfraError(f"r2cc {words[0]} ended with {done.exit_code}: {' '.join(last)}", "run it with fewer --hosts")
    return time.perf_counter() - started


@click.command(cls=Benchmark, help=__doc__)
@click.option("--hosts", type=click.IntRange(2, 64), default=64, show_default=True)
@json_option
def main(*, hosts: int, as_json: bool) -> None:
    if missing := [mark.kwargs["reason"] for mark in ssh_lab.NEEDS if mark.args and mark.args[0]]:
        raise UsageError(missing[0], "see README for what the lab over SSH needs")
    build_net(progress=silent)
    names = [f"h{number}" for number in range(hosts)]
    with tempfile.TemporaryDirectory(prefix="r2cc-hosts-") as text:
        folder = Path(text)
        entries = [
            {
                "name": name,
                "address": ssh_lab.address_of(name),
                "nics": {"data": "eth0", "management": "mgmt0"},
                "prefix": str(folder / f"prefix-{name}"),
            }
            for name in names
        ]
        topology = Topology.load(json.dumps({"hosts": hosts, "nics": 1, "rate_gbit": 1.0}))
        with Lab.up(topology) as lab, ssh_lab.served(lab, folder, names, entries) as inventory:
            controller, where = lab.hosts["h0"], ("--inventory", str(inventory))
            figures = [
                Figure("hosts check, cold and again", took_s(controller, "hosts", "check", *where), None, "s"),
                Figure("deploy, to empty hosts", took_s(controller, "deploy", "--build", "net", *where), None, "s"),
                Figure("deploy, nothing to do", took_s(controller, "deploy", "--build", "net", *where), None, "s"),
                Figure("doctor", took_s(controller, "doctor", *where, fine=FINDINGS), None, "s"),
            ]
    finish(f"{hosts} hosts over SSH", figures, as_json=as_json, hosts=hosts)


if __name__ == "__main__":
    main()
