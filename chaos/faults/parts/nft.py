"""nft's own words: tables of ours, and whether they are there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from chaos.faults.steps import Answer, Command

PRIORITY = "-400"
"""Before anybody's rules, connection tracking included."""


def joined(commands: list[list[str]]) -> list[str]:
    """nft's own separator between commands: all of them in one transaction of one process."""
    words = [word for command in commands for word in (*command, ";")]
    return words[:-1]


def asked(place: str) -> Command:
    """Which tables there are; `has_table` reads the answer."""
    return Command(place, ("nft", "-j", "list", "tables"))


def removed(place: str, table: str, *families: str) -> Command:
    """Adding a table first makes its deletion right when it is already gone."""
    lines = [[word, "table", family, table] for family in families for word in ("add", "delete")]
    return Command(place, ("nft", *joined(lines)))


def dropped(names: Sequence[str], hooks: Mapping[str, Sequence[str]]) -> list[str]:
    """A table that drops what passes these NICs: by hook (ingress, egress), what else a packet must match."""
    table = table_of(names)
    lines = [["add", "table", "netdev", table]]
    for number, name in enumerate(names):
        for hook, match in hooks.items():
            form = f'{{ type filter hook {hook} device "{name}" priority {PRIORITY} ; }}'
            lines.append(["add", "chain", "netdev", table, f"{hook}{number}", form])
            lines.append(["add", "rule", "netdev", table, f"{hook}{number}", *match, "counter", "drop"])
    return joined(lines)


def table_of(names: Sequence[str]) -> str:
    """Of a fault on these NICs of a host."""
    return "r2cc_" + "".join(letter if letter.isalnum() else "_" for letter in names[0])


def has_table(answer: Answer, name: str, families: Sequence[str]) -> bool:
    """ValueError when nft did not say."""
    if answer.exit_code != 0:
        raise ValueError("`nft -j list tables` failed")
    items = json.loads(answer.stdout)["nftables"] if answer.stdout else []
    tables = [item["table"] for item in items if "table" in item]
    return any(table["name"] == name and table["family"] in families for table in tables)
