"""Which NICs nothing can stand in for: said before every experiment on a cluster (design page 30)."""

from __future__ import annotations

from collections.abc import Mapping

from harness.doctor import engine, registry
from harness.doctor.examination import Ward, examined
from harness.doctor.fold import fold
from harness.doctor.render import BACKUP
from harness.hosts.base import Host


def without(hosts: Mapping[str, Host], data: Mapping[str, tuple[str, ...]]) -> list[str]:
    """A line for each NIC, or for the same NIC of several hosts. One round trip a host; what does not answer is left
    out, as whatever comes next will say so."""
    found = examined(Ward("cluster", hosts, data), pid=None, tries_paths=False)
    report = engine.examine(found.fleet, registry.chosen([BACKUP]))
    seen = [finding for finding in report.findings if finding.check == BACKUP]
    return [f"{fold(each.hosts)} {each.subject}: {each.seen.removeprefix('no backup: ')}" for each in seen]
