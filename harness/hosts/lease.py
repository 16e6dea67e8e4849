"""One controller at a time on each host: a lease, held by a process there that lives no longer than we are heard of."""

from __future__ import annotations

import getpass
import json
import os
import select
import shlex
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial

from harness.errors import InfraError, R2ccError
from harness.hosts.base import Host, Process, spawn_held
from harness.hosts.parallel import on_all

SILENCE_S = 15.0
"""A controller that is not heard of for so long has lost its lease."""
BEATS = 5
"""In that time."""
ANSWER_S = 10.0
LIMIT_S = 10.0
MOST_BYTES = 65536

PLACE = r"""
set -u
umask 077
net=$(readlink /proc/self/ns/net) || exit 1; net=${net#*[}; net=${net%]}
state=/run/r2cc/$net
[ "$(id -u)" = 0 ] || state=$HOME/.r2cc/run/$(cat /proc/sys/kernel/random/boot_id)/$net
lease=$state/lease
"""
HOLD = (
    PLACE
    + r"""
command -v flock >/dev/null || { echo "there is no flock (util-linux)" >&2; exit 1; }
mkdir -p "$state" && exec 9>>"$lease" || exit 1
tries=0
until flock -n 9; do
  said=$(cat "$state/holder" 2>/dev/null)
  tries=$((tries + 1))
  { [ -n "$said" ] && [ $tries -gt 1 ]; } || [ $tries -gt 20 ] && { echo "taken $said"; exit 11; }
  sleep 0.1 2>/dev/null || sleep 1
done
trap 'rm -f "$state/holder"' EXIT
trap 'exit 0' HUP INT TERM
echo "$$ $1" >"$state/holder.new" && mv "$state/holder.new" "$state/holder" || exit 1
echo held
while timeout "$2" sh -c 'IFS= read -r _' 9>&-; do :; done
"""
)
"""A fixed script; who we are and the limit are its arguments. Whoever only looks has the lock for a moment, while the
name of one that was killed may still be there: the lock is tried again. Every line of its input says that we live. The
lock goes with the process, however it ends; no part of what it starts has it."""
LOOK = (
    PLACE
    + r"""
[ -e "$lease" ] || exit 0
( flock -n 9 ) 9>>"$lease" && exit 0
cat "$state/holder"
"""
)
BREAK = (
    PLACE
    + r"""
[ -e "$state/holder" ] || exit 0
IFS=' ' read -r pid _ <"$state/holder"
holds() { for fd in "/proc/$pid/fd"/*; do [ "$(readlink "$fd")" = "$lease" ] && return 0; done; return 1; }
holds || exit 0
kill -s KILL "$pid"
rm -f "$state/holder"
"""
)


@dataclass(frozen=True)
class Holder:
    """Who has a host."""

    user: str = "?"
    machine: str = "?"
    pid: int = 0
    since: str = "?"
    command: str = "?"

    def __str__(self) -> str:
        return f"{self.user}@{self.machine} (pid {self.pid}, since {self.since}, runs `{self.command}`)"


def me(argv: Sequence[str] | None = None) -> Holder:
    """This process, as others are told of it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    words = list(sys.argv if argv is None else argv)
    line = shlex.join([words[0].rpartition("/")[2], *words[1:]] if words else [])[:200]
    return Holder(user, socket.gethostname(), os.getpid(), time.strftime("%Y-%m-%dT%H:%M:%S%z"), line)


def parse_holder(text: str) -> Holder:
    """From what a host says: its pid there, and our JSON. What cannot be read is a holder nobody knows."""
    try:
        told = json.loads(text.partition("{")[1] + text.partition("{")[2])
        words = [str(told[key]) for key in ("user", "machine", "since", "command")]
        return Holder(words[0], words[1], int(told["pid"]), *words[2:])
    except (ValueError, KeyError, TypeError):
        return Holder()


class Lease:
    """Of one host, held as long as the block lasts and we are heard of."""

    def __init__(self, host: Host, process: Process, write_fd: int) -> None:
        self.host = host
        self._process = process
        self._fd = write_fd

    @property
    def lost(self) -> bool:
        return self._process.poll() is not None

    def beat(self) -> None:
        """Never waits: what does not fit into the pipe is not needed."""
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(self._fd, b"\n")

    def close(self) -> None:
        """The end of its input ends it."""
        os.close(self._fd)
        with suppress(R2ccError):
            self._process.wait(1.0)
        self._process.close()


class Leases:
    """Of all hosts of a run. `check` is for whoever is about to change something on them."""

    def __init__(self, held: dict[str, Lease], who: Holder, silence_s: float) -> None:
        self._held = held
        self._who = who
        self._silence_s = silence_s
        self._period_s = silence_s / BEATS
        self._ended = threading.Event()
        threading.Thread(target=self._beat, name="lease heartbeats", daemon=True).start()

    def _beat(self) -> None:
        while not self._ended.wait(self._period_s):
            for lease in [*self._held.values()]:
                lease.beat()

    def check(self) -> None:
        """Takes again what was lost while the network was; InfraError when a host is another controller's by now."""
        for name, lease in [*self._held.items()]:
            if lease.lost:
                try:
                    self._held[name] = _take(lease.host, self._who, self._silence_s)
                except R2ccError as error:
                    raise InfraError(f"the lease of {name} is lost: {error.message}", error.hint) from error
                lease.close()

    def close(self) -> None:
        self._ended.set()
        with ExitStack() as stack:
            for lease in self._held.values():
                stack.callback(lease.close)


@contextmanager
def hold(hosts: Mapping[str, Host], *, silence_s: float = SILENCE_S, holder: Holder | None = None) -> Iterator[Leases]:
    """Takes all hosts, or none: InfraError names who has those that another controller uses."""
    who = holder or me()
    with ExitStack() as stack:
        outcomes = on_all({name: partial(_take, host, who, silence_s) for name, host in hosts.items()})
        held = {name: outcome.value for name, outcome in outcomes.items() if outcome.value is not None}
        leases = Leases(held, who, silence_s)
        stack.callback(leases.close)
        errors = [outcome.error for outcome in outcomes.values() if outcome.error is not None]
        if errors:
            raise InfraError("\n".join(error.message for error in errors), errors[0].hint)
        yield leases


def _take(host: Host, who: Holder, silence_s: float) -> Lease:
    argv = ["sh", "-c", HOLD, "r2cc-lease", json.dumps(asdict(who)), f"{silence_s:g}"]
    process, write_fd = spawn_held(host, argv)
    os.set_blocking(write_fd, False)
    lease = Lease(host, process, write_fd)
    said = _first_line(process)
    if said == "held":
        return lease
    errors = process.stderr_tail()
    lease.close()
    if said.startswith("taken"):
        raise InfraError(
            f"{host.name} is used by {parse_holder(said)}",
            "wait until that ends; it frees the host also when it dies (r2cc panic --break-lease takes it away)",
        )
    raise InfraError(
        f"{host.name}: no lease: {said or errors or 'it said nothing'}", "flock and timeout are needed there"
    )


def _first_line(process: Process) -> str:
    """What the holder's script says first; empty when it says nothing in time."""
    assert process.stdout is not None
    deadline, said = time.monotonic() + ANSWER_S, b""
    while b"\n" not in said and len(said) < MOST_BYTES:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([process.stdout], [], [], left_s)[0]:
            break
        chunk = os.read(process.stdout.fileno(), 4096)
        if not chunk:
            break
        said += chunk
    return said.decode(errors="replace").partition("\n")[0].strip()


def holder_of(host: Host) -> Holder | None:
    """Who has it; None: nobody."""
    said = host.run(["sh", "-c", LOOK, "r2cc-lease"], timeout_s=LIMIT_S, check=False).stdout.strip()
    return parse_holder(said) if said else None


def take_away(host: Host) -> None:
    """Ends the holder's process on the host: whoever asks next has it."""
    host.run(["sh", "-c", BREAK, "r2cc-lease"], timeout_s=LIMIT_S, check=False)
