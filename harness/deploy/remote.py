"""One host's part of a deploy: fixed scripts (*.sh beside this file) that need a POSIX shell and coreutils there."""

from __future__ import annotations

import gzip
import os
import re
import secrets
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from pathlib import Path

from harness.deploy.build import Build, File
from harness.deploy.facts import TOOLS, HostFacts, parse
from harness.errors import CommandError, InfraError, UsageError
from harness.hosts.base import Host, Process, Result, spawn_held

FACTS_S, VERIFY_S, LOCK_S = 60.0, 600.0, 30.0
SLOWEST_BYTES_PER_S = 200_000
SILENCE_S = 60
"""A host whose controller says nothing for so long gives its lock up."""
SMALL = 4096
AGAIN_IS_NO_USE = 4
"""Exit code of a script that was asked for what the host cannot have."""
DAMAGED, SWITCHING, LOCK_LOST = 5, 6, 7
"""Exit codes of scripts that have changed nothing yet."""
HINTS = {
    ("rollback", AGAIN_IS_NO_USE): "r2cc deploy --list says what lies there; r2cc deploy puts a build there",
    ("rollback", DAMAGED): "the earlier build is damaged, and what was current still is; r2cc deploy puts one there",
    ("install", DAMAGED): "run it again; what was current still is",
}
NOTHING_CHANGED = {
    SWITCHING: "wait until that one has ended; nothing was changed on this host",
    LOCK_LOST: f"it heard nothing from here for over {SILENCE_S} s; run it again; nothing was changed on this host",
}
ELSE = {
    "prune": "the build is current there; the next deploy removes what is left of old ones",
    "follow": "run it again; the host that it shares its folder with has the new build",
    "list": "run it again",
}
MAYBE = "r2cc deploy --list says which build is current there; then run it again"
"""Of a script that ended in the midst: it may have switched already."""


OPEN_END = re.compile(r"(\b(then|do|else|in)|;;|&&|\|\|?|[({])$")


class Held(InfraError):
    """Another controller is at work on the host."""


GUARDED = ("facts", "lock")


@cache
def script(name: str) -> str:
    """One line without comments: a login shell such as csh takes no line breaks in a word."""
    files = ["guard", name] if name in GUARDED else [name]
    text, joined = "\n".join(map(_text, files)), ""
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith("#"):
            joined += line + (" " if OPEN_END.search(line) else "; ")
    return joined.rstrip("; ")


def _text(name: str) -> str:
    return resources.files("harness.deploy").joinpath(f"{name}.sh").read_text(encoding="utf-8")


def argv(name: str, *words: str) -> list[str]:
    return ["sh", "-c", script(name), f"r2cc-{name}", *words]


def _run(host: Host, name: str, *words: str, input: str | None = None, timeout_s: float = VERIFY_S) -> Result:
    """InfraError, or UsageError where to run it again is no use: with what the script said, not with the script."""
    answer = host.run(argv(name, *words), input=input, timeout_s=timeout_s, check=False)
    if answer.exit_code != 0:
        said = "; ".join(answer.stderr.strip().splitlines()[-3:]) or f"exit code {answer.exit_code}"
        kind = UsageError if answer.exit_code == AGAIN_IS_NO_USE else InfraError
        raise kind(f"{host.name}: {name}: {said}", _hint(name, answer.exit_code))
    return answer


def _hint(name: str, exit_code: int) -> str:
    """What is so after that script ended with that code."""
    own = HINTS.get((name, exit_code))
    if own is not None:
        return own
    return (NOTHING_CHANGED.get(exit_code) if name != "prune" else None) or ELSE.get(name, MAYBE)


def facts(host: Host, prefix: str) -> HostFacts:
    """InfraError when the host does not answer as it should."""
    answer = host.run(argv("facts", prefix, *TOOLS), timeout_s=FACTS_S, check=False)
    try:
        return parse(answer.stdout)
    except ValueError as error:
        raise InfraError(f"{host.name}: {error}: {answer.stderr.strip()[-300:]}", "r2cc hosts check") from error


def whole_objects(host: Host, prefix: str, build: Build) -> set[str]:
    """Which of a build's objects lie there with the bytes they should have."""
    words = "".join(f"{digest}\n" for digest in build.objects)
    return set(_run(host, "survey", prefix, input=words).stdout.split())


class Objects:
    """Files to be sent, each compressed once for all hosts where that pays."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._known: dict[tuple[str, bool], tuple[Path, str]] = {}

    def packed(self, file: File, *, can_gzip: bool) -> tuple[Path, str]:
        """(what to send, how it is packed)."""
        with self._lock:
            key = (file.sha256, can_gzip)
            if key not in self._known:
                self._known[key] = self._pack(file) if can_gzip and file.size > SMALL else (file.local, "plain")
            return self._known[key]

    def _pack(self, file: File) -> tuple[Path, str]:
        packed = self._folder / file.sha256
        packed.write_bytes(gzip.compress(file.local.read_bytes(), compresslevel=6, mtime=0))
        return (packed, "gzip") if packed.stat().st_size < 0.9 * file.size else (file.local, "plain")


def send(host: Host, prefix: str, file: File, packed: Path, how: str) -> int:
    """One object; how many bytes went. InfraError when it did not arrive whole; what was there before is untouched."""
    words = argv("receive", prefix, file.sha256, str(file.size), how)
    size = packed.stat().st_size
    with packed.open("rb") as source:
        process = host.spawn(words, stdin=source, stdout=subprocess.DEVNULL)
        try:
            code = process.wait(60 + size / SLOWEST_BYTES_PER_S)
            if code != 0:
                said = "; ".join(process.stderr_tail().strip().splitlines()[-3:]) or f"exit code {code}"
                raise InfraError(
                    f"{host.name}: {file.path} did not arrive: {said}", "run it again; what was current still is"
                )
        finally:
            process.close()
    return size


def install(host: Host, prefix: str, build: Build, token: str) -> str:
    """Verifies all of the build on the host and switches to it; the name of what was current."""
    answer = _run(host, "install", prefix, build.name, token, input=build.manifest)
    return _said(answer, "was").removeprefix("builds/")


def follow(host: Host, prefix: str, build: Build) -> None:
    """Of a host whose prefix another host has just filled."""
    _run(host, "follow", prefix, build.name, timeout_s=120.0)


def prune(host: Host, prefix: str, keep: int, token: str) -> list[str]:
    """The builds that were removed."""
    answer = _run(host, "prune", prefix, str(keep), token)
    return [line.partition("=")[2] for line in answer.stdout.splitlines() if line.startswith("removed=")]


def rollback(host: Host, prefix: str, token: str) -> tuple[str, str]:
    """(what was current, what is now)."""
    answer = _run(host, "rollback", prefix, token)
    return _said(answer, "was").removeprefix("builds/"), _said(answer, "now").removeprefix("builds/")


def listing(host: Host, prefix: str) -> Result:
    return _run(host, "list", prefix, timeout_s=FACTS_S)


def _said(answer: Result, name: str) -> str:
    return next((line.partition("=")[2] for line in answer.stdout.splitlines() if line.startswith(f"{name}=")), "")


def new_token() -> str:
    return secrets.token_hex(8)


@contextmanager
def locked(host: Host, prefix: str, token: str, owner: str) -> Iterator[str]:
    """Holds the host's lock; yields "" or the name of the host whose prefix this one shares.

    InfraError naming the holder when another controller has it. The lock ends with us, however we end.
    """
    process, ours = spawn_held(host, argv("lock", prefix, token, str(SILENCE_S), owner, host.name))
    ended = threading.Event()
    beat = threading.Thread(target=_beat, args=(ours, ended), name=f"{host.name} lock", daemon=True)
    try:
        word, _, rest = _first_line(host, process).partition(" ")
        if word == "held":
            raise Held(
                f"{host.name}: another deploy is at work there: {rest or 'its owner is not known'}",
                "wait until it has ended; nothing was changed on this host",
            )
        beat.start()
        yield rest if word == "shared" else ""
    finally:
        ended.set()
        if beat.ident is not None:
            beat.join()
        os.close(ours)
        with suppress(CommandError):
            process.wait(LOCK_S)
        process.close()


def _first_line(host: Host, process: Process) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().decode(errors="replace").strip()
    if line.split(" ")[0] not in ("mine", "shared", "held"):
        said = process.stderr_tail() or line or "no answer"
        raise InfraError(f"{host.name}: the prefix cannot be prepared: {said}", "check its owner and space")
    return line


def _beat(out: int, ended: threading.Event) -> None:
    while not ended.wait(SILENCE_S / 4):
        with suppress(OSError):
            os.write(out, b"on\n")
