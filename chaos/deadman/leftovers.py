"""What faults of ours left on a host without a record: only what carries our name or handle is ever touched."""

from __future__ import annotations

import json
from dataclasses import dataclass

from chaos.faults.parts.qdisc import OURS as QDISC
from harness.hosts import Host

TABLE = "r2cc_"
"""Names of our nft tables begin so."""
LIMIT_S = 10.0
LOOK = 'command -v "$1" >/dev/null || PATH=$PATH:/usr/sbin:/sbin; command -v "$1" >/dev/null || exit 0; exec "$@"'


@dataclass(frozen=True)
class Leftover:
    """One thing of ours, and how it is removed."""

    what: str
    remove: tuple[str, ...]


def find(host: Host) -> list[Leftover]:
    """ValueError when a tool that is there says nothing that can be read."""
    return [*tables(_look(host, "nft", "-j", "list", "tables")), *qdiscs(_look(host, "tc", "-j", "qdisc", "show"))]


def remove(host: Host, found: Leftover) -> str | None:
    """Why it cannot be removed; None: it is gone."""
    result = host.run(["sh", "-c", LOOK, "r2cc", *found.remove], timeout_s=LIMIT_S, check=False)
    return None if result.exit_code == 0 else result.stderr.strip() or f"exit code {result.exit_code}"


def tables(text: str) -> list[Leftover]:
    """Of what `nft -j list tables` says."""
    items = [item.get("table", {}) for item in json.loads(text or '{"nftables": []}')["nftables"]]
    ours = [(str(t["family"]), str(t["name"])) for t in items if str(t.get("name", "")).startswith(TABLE)]
    return [Leftover(f"nft table {family} {name}", ("nft", "delete", "table", family, name)) for family, name in ours]


def qdiscs(text: str) -> list[Leftover]:
    """Of what `tc -j qdisc show` says."""
    ours = [qdisc for qdisc in json.loads(text or "[]") if qdisc.get("handle") == QDISC]
    return [
        Leftover(
            f"qdisc {qdisc['kind']} {QDISC} of {qdisc['dev']}",
            ("tc", "qdisc", "del", "dev", str(qdisc["dev"]), *_place(qdisc), "handle", QDISC),
        )
        for qdisc in ours
    ]


def _place(qdisc: dict[str, object]) -> tuple[str, ...]:
    return ("root",) if qdisc.get("root") else ("parent", str(qdisc.get("parent")))


def _look(host: Host, *argv: str) -> str:
    """Empty where there is no such tool, or no right to use it: a fault could not have used it either."""
    result = host.run(["sh", "-c", LOOK, "r2cc", *argv], timeout_s=LIMIT_S, check=False)
    return result.stdout if result.exit_code == 0 else ""
