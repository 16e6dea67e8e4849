"""nft's own words: tables of ours, and whether they are there."""

from __future__ import annotations

import json
from collections.abc import Sequence

from chaos.faults.steps import Answer

PRIORITY = "-400"
"""Before anybody's rules, connection tracking included."""


def joined(commands: list[list[str]]) -> list[str]:
    """nft's own separator between commands: all of them in one transaction of one process."""
    words = [word for command in commands for word in (*command, ";")]
    return words[:-1]


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
