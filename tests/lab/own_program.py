"""Programs as people have them, good and bad: `python own_program.py WHAT`. Each is a rank of `kind: command`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

RANK = int(os.environ["RANK"])
STOCK = os.environ.get("R2CC_MODE") == "0"
OUT = Path(os.environ["R2CC_OUT"])
NIC = Path("/sys/class/net/eth0/carrier")


def steps(count: int, every_s: float = 0.03, say: str = "step {} loss 0.5") -> None:
    for number in range(1, count + 1):
        time.sleep(every_s)
        print(say.format(number), flush=True)


def child(**streams: int) -> None:
    """One that a new session and a new parent hide."""
    subprocess.Popen(["sleep", "1000"], start_new_session=True, **streams)  # type: ignore[call-overload]


def steady() -> None:
    steps(40)


def other_words() -> None:
    print("epoch one is done", flush=True)


def silent() -> None:
    pass


def exits_3() -> None:
    print("no such data set", file=sys.stderr)
    sys.exit(3)


def forks_away() -> None:
    steps(5)
    child()


def leaves_a_daemon() -> None:
    steps(10)
    null = subprocess.DEVNULL
    child(stdin=null, stdout=null, stderr=null)


def ignores_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)


def chatty() -> None:
    """10 MB a second."""
    block = (b"x" * 99 + b"\n") * 1000
    for number in range(1, 41):
        began = time.monotonic()
        for _ in range(10):
            os.write(1, block)
        os.write(1, b"step %d\n" % number)
        time.sleep(max(0.0, 0.1 - time.monotonic() + began))


def binary() -> None:
    for number in range(1, 21):
        os.write(1, os.urandom(100_000).replace(b"\n", b"\r") + b"\nstep %d loss nan\n" % number)
        time.sleep(0.03)


def no_digest_with_us() -> None:
    steps(5)
    if STOCK:
        (OUT / "digest").write_text("abc\n")


def one_digest_is_missing() -> None:
    steps(5)
    if STOCK or RANK == 0:
        (OUT / "digest").write_text("abc\n")


def differs() -> None:
    for number in range(1, 7):
        time.sleep(0.03)
        print(f"step {number} is {number + 100 * (number == 4 and RANK == 1 and not STOCK)}", flush=True)


def never_meet() -> None:
    """Rank 1 asks for ever where nobody listens."""
    while RANK == 1:
        try:
            socket.create_connection((os.environ["MASTER_ADDR"], 9), timeout=1.0)
        except OSError:
            time.sleep(0.1)
    time.sleep(1000)


def stock_crashes() -> None:
    for number in range(1, 61):
        time.sleep(0.03)
        if STOCK and NIC.read_text().strip() == "0":
            os.abort()
        print(f"step {number} loss 0.5", flush=True)


def crashes() -> None:
    steps(5)
    os.abort()


def says_where() -> None:
    """Its place, as a result; and a child that outlives it."""
    steps(60)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK")
    (OUT / "place").write_text(" ".join([socket.gethostname(), *(os.environ[name] for name in names)]))
    null = subprocess.DEVNULL
    child(stdin=null, stdout=null, stderr=null)


def long_line() -> None:
    """Steps, and amid a fault a line that a bad pattern never gets through with."""
    for number in range(1, 41):
        time.sleep(0.05)
        print(f"step {number}", flush=True)
        if NIC.read_text().strip() == "0":
            print("a" * 50_000 + "!", flush=True)


def no_number() -> None:
    steps(5, say="step {} took soon ms")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
