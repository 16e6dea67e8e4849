"""Runs a command on a host of a lab as `ssh` would, for launchers that start daemons: `FILE ADDRESS COMMAND...`.

Both are in the lab already, on different hosts of it; the lab's agent, which all of them reach, starts the command.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

NETWORK = "10.250.0.0/24"
"""The management network of a lab (docs/reference/contracts.md)."""


@dataclass(frozen=True)
class Inside:
    """Hosts that only their own kind reaches: those of a lab. A launcher runs on the first of them."""

    addresses: Mapping[str, str]
    """Of each host, in the order of ranks: where its daemon is reached, and its name for a launcher."""
    network: str
    """a.b.c.d/n of these addresses: no fault touches it."""
    shell: str
    """A script of sh, `FILE ADDRESS COMMAND...`, which runs a command on a host, as `ssh` would."""


def shell(hosts: Mapping[str, str], folder: Path) -> str:
    """The script, for a lab with this folder; `hosts`: the address of each."""
    root = str(Path(__file__).parents[2])
    named = "".join(f"{address}) host={host};; " for host, address in hosts.items())
    start = f"import sys; sys.path.insert(0, {root!r}); from harness.lab.remote import main; main()"
    words = shlex.join([sys.executable, "-c", start, str(folder)])
    unknown = '*) echo "r2cc: $1 is no host of the lab" >&2; exit 2;;'
    return f'case "$1" in {named}{unknown} esac\nshift\nexec {words} "$host" "$@"\n'


def main() -> None:
    """`FOLDER HOST COMMAND...`: the words of the command are for a shell there, and its exit code is ours."""
    from harness.lab.host import NamespaceHost

    folder, host, *words = sys.argv[1:]
    process = NamespaceHost(host, Path(folder)).spawn(["sh", "-c", " ".join(words)], stdin=0, stdout=1, stderr=2)
    try:
        code = process.wait()
    finally:
        process.close()
    sys.exit(code if code >= 0 else 128 - code)
