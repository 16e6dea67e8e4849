"""Which host keys are believed, and which of the user's keys are offered."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import socket
import stat
import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import SshError

if TYPE_CHECKING:
    from paramiko import Agent, PKey

    from harness.hosts.ssh.target import Target

_reading = threading.Lock()
BROKEN = (ValueError, struct.error, LookupError, TypeError, AttributeError, ArithmeticError)
"""What paramiko raises where a key's bytes are none."""
RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")
UNKNOWN_HINT = "compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the host, then `ssh` to it once"


class KnownHosts:
    """Some known_hosts files: names, hashed names and patterns. Lines of certificate authorities are not used.

    As with OpenSSH, a line that cannot be read is as if it were not there: its neighbours still count.
    """

    def __init__(self, files: tuple[Path, ...]) -> None:
        self.files = files
        self.unread: list[str] = []
        """`FILE:LINE` of lines that look like entries, and files that may not be read."""
        self._entries: list[Entry] = []
        for file in files:
            self._add(file)

    def _add(self, file: Path) -> None:
        try:
            text = file.read_text(errors="replace") if file.is_file() else ""
        except OSError as error:
            self.unread.append(f"{file} ({error.strerror})")
            return
        for number, line in enumerate(text.split("\n"), 1):
            words = line.split()
            if words and not words[0].startswith("#"):
                entry = read_entry(words)
                if entry is None:
                    self.unread.append(f"{file}:{number}")
                else:
                    self._entries.append(entry)

    def types(self, name: str) -> list[str]:
        """The kinds of key known of a host, as they are negotiated: asked for first, so that a known key is shown."""
        kinds = [key.get_name() for key in self._known(name) or self._known(without_port(name))]
        return [one for kind in kinds for one in (RSA_SIGNATURES if kind == "ssh-rsa" else (kind,))]

    def check(self, target: Target, key: PKey) -> None:
        """Returns when `key` is the host's. Raises SshError when it is unknown, another one, or revoked."""
        name, shown = target.known_as, f"{key.get_name()} {fingerprint(key)}"
        if self._is_revoked(name, key):
            message = f"{target.name}: its host key is marked as revoked: {shown}; nothing was sent to it"
            raise SshError("revoked_host_key", message, "ask who revoked it")
        known = self._known(name)
        if key in known or (not known and key in self._known(without_port(name))):
            return
        if not known:
            message = f"{target.name}: host key of {name} is not in {self._where()}: {shown}{self._damage()}"
            raise SshError("unknown_host_key", message, UNKNOWN_HINT)
        message = (
            f"{target.name}: THE HOST KEY OF {name} HAS CHANGED: it is {shown}, "
            f"known is {', '.join(fingerprint(one) for one in known)}; nothing was sent to it"
        )
        raise SshError("changed_host_key", message, f"find out why; if it was installed again: ssh-keygen -R '{name}'")

    def _known(self, name: str) -> list[PKey]:
        return [entry.key for entry in self._entries if entry.marker == "" and entry.is_about(name)]

    def _is_revoked(self, name: str, key: PKey) -> bool:
        names = (name, without_port(name))
        revoked = [entry for entry in self._entries if entry.marker == REVOKED and entry.key == key]
        return any(entry.is_about(each) for entry in revoked for each in names)

    def _where(self) -> str:
        return str(self.files[0]) if self.files else "any known_hosts file"

    def _damage(self) -> str:
        few = ", ".join(self.unread[:3]) + (" and more" if len(self.unread) > 3 else "")
        return f"; not read, as damaged: {few}" if few else ""


REVOKED, AUTHORITY = "@revoked", "@cert-authority"


@dataclass(frozen=True)
class Entry:
    """One line of known_hosts. `marker` is empty for most."""

    marker: str
    names: tuple[str, ...]
    key: PKey

    def is_about(self, name: str) -> bool:
        """Whether it is about the host `name`, as OpenSSH has it; names have no capital letters there."""
        lower, found = name.lower(), False
        for each in self.names:
            if each.startswith("|"):
                found |= is_hash_of(each, lower)
            elif fnmatchcase(lower, each.removeprefix("!").lower().replace("[", "[[]")):
                if each.startswith("!"):
                    return False
                found = True
        return found


def read_entry(words: Sequence[str]) -> Entry | None:
    """Of a line's words: marker, names, kind of key, key, comment. None: it is damaged, or of a kind nobody knows."""
    marker = words[0] if words[0].startswith("@") else ""
    words = words[1:] if marker else words
    if marker not in ("", REVOKED, AUTHORITY) or len(words) < 3:
        return None
    key = _key(words[1], words[2])
    return None if key is None else Entry(marker, tuple(words[0].split(",")), key)


def _key(kind: str, text: str) -> PKey | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from paramiko import PKey, SSHException
    from paramiko.pkey import UnknownKeyType

    try:
        blob = base64.b64decode(text, validate=True)
        (length,) = struct.unpack(">I", blob[:4])
        if blob[4 : 4 + length] != kind.encode():
            return None
        return PKey.from_type_string(kind, blob)
    except (SSHException, UnknownKeyType, UnsupportedAlgorithm, *BROKEN):
        return None


def is_hash_of(text: str, name: str) -> bool:
    """Whether `|1|SALT|HASH` stands for a name; False for what is no such text."""
    try:
        _, number, salt, digest = text.split("|")
        hashed = hmac.new(base64.b64decode(salt, validate=True), name.encode(), hashlib.sha1).digest()
        return number == "1" and hmac.compare_digest(hashed, base64.b64decode(digest, validate=True))
    except ValueError:
        return False


def without_port(name: str) -> str:
    """`host` of `[host]:port`, by whose key OpenSSH knows the host too."""
    found = re.fullmatch(r"\[(.+)\]:\d+", name)
    return found[1] if found else name


@cache
def _known_hosts(files: tuple[Path, ...], _stamps: tuple[int, ...]) -> KnownHosts:
    return KnownHosts(files)


def known_hosts(files: tuple[Path, ...]) -> KnownHosts:
    """Read once for all hosts, and again when a file changes."""
    with _reading:
        return _known_hosts(files, tuple(file.stat().st_mtime_ns if file.is_file() else 0 for file in files))


def fingerprint(key: PKey) -> str:
    """As OpenSSH shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")


class Offered:
    """The user's keys, in the order they are offered, and why some could not be."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.notes: list[str] = []
        self.tried: list[str] = []

    def __iter__(self) -> Iterator[PKey]:
        for path in self.target.keys:
            key, problem = _load(path)
            if key is not None:
                self.tried.append(str(path))
                yield key
            else:
                self.notes.append(problem)
        if self.target.agent != "none":
            yield from self._of_agent()

    def _of_agent(self) -> Iterator[PKey]:
        """The agent signs with them while this is iterated over."""
        from paramiko import SSHException

        named = {_public(path) for path in self.target.keys}
        try:
            agent = _agent(self.target.agent_socket)
        except (SSHException, OSError):
            return
        try:
            for key in agent.get_keys():
                if self.target.agent == "all" or key.asbytes() in named:
                    self.tried.append(f"the agent's {fingerprint(key)}")
                    yield key
        finally:
            agent.close()


def _agent(where: Path | None) -> Agent:
    """The agent that listens there; without a place the one of SSH_AUTH_SOCK. OSError: nobody listens."""
    import paramiko

    if where is None:
        return paramiko.Agent()

    class Named(paramiko.Agent):
        def __init__(self) -> None:
            paramiko.agent.AgentSSH.__init__(self)
            link = socket.socket(socket.AF_UNIX)
            try:
                link.connect(str(where))
                self._connect(link)  # type: ignore[attr-defined]
            except BaseException:
                link.close()
                raise

    return Named()


def _load(path: Path) -> tuple[PKey | None, str]:
    with _reading:
        return _loaded(path)


@cache
def _loaded(path: Path) -> tuple[PKey | None, str]:
    """Read once for all hosts; the second is why it cannot be used."""
    from paramiko import PasswordRequiredException, PKey, SSHException
    from paramiko.pkey import UnknownKeyType

    try:
        if mode := _exposed(path):
            return None, f"{path} is not used: others may read or change it (mode {mode:04o}); chmod 600 {path}"
        return PKey.from_path(path), ""
    except FileNotFoundError:
        return None, f"{path} is not there"
    except (PasswordRequiredException, TypeError):
        return None, f"{path} has a passphrase (ssh-add it)"
    except OSError as error:
        return None, f"{path}: {error.strerror}"
    except (UnknownKeyType, SSHException, ValueError):
        return None, f"{path} is no private key"


def _exposed(path: Path) -> int:
    """The mode of one's own key that is not for oneself alone, which OpenSSH refuses as well; else 0. OSError."""
    found = path.stat()
    return stat.S_IMODE(found.st_mode) if found.st_uid == os.getuid() and found.st_mode & 0o077 else 0


def _public(path: Path) -> bytes | None:
    """What `path`.pub says, for a key that only the agent can use."""
    try:
        return base64.b64decode(Path(f"{path}.pub").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
