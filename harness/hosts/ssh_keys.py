"""Which host keys are believed, and which of the user's keys are offered."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import SshError

if TYPE_CHECKING:
    from paramiko import Agent, PKey
    from paramiko.hostkeys import HostKeyEntry

    from harness.hosts.ssh_target import Target

_reading = threading.Lock()
RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")
UNKNOWN_HINT = "compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the host, then `ssh` to it once"


class KnownHosts:
    """Some known_hosts files: names, hashed names and patterns. Lines of certificate authorities are not used."""

    def __init__(self, files: tuple[Path, ...]) -> None:
        self.files = files
        self._keys: list[HostKeyEntry] = []
        self._revoked: list[HostKeyEntry] = []
        for file in files:
            for line in file.read_text(errors="replace").splitlines() if file.is_file() else []:
                self._add(line.split())

    def _add(self, words: list[str]) -> None:
        from paramiko.hostkeys import HostKeyEntry, InvalidHostKey
        from paramiko.ssh_exception import SSHException

        revoked = words[:1] == ["@revoked"]
        words = words[1:] if revoked else words
        if not words or words[0].startswith(("#", "@")):
            return
        with suppress(SSHException, InvalidHostKey, ValueError):
            entry = HostKeyEntry.from_line(" ".join(words))
            if entry is not None and entry.key is not None:
                (self._revoked if revoked else self._keys).append(entry)

    def types(self, name: str) -> list[str]:
        """The kinds of key known of a host, as they are negotiated: asked for first, so that a known key is shown."""
        kinds = [entry.key.get_name() for entry in self._keys if _is_about(entry, name)]
        return [one for kind in kinds for one in (RSA_SIGNATURES if kind == "ssh-rsa" else (kind,))]

    def check(self, target: Target, key: PKey) -> None:
        """Returns when `key` is the host's. Raises SshError when it is unknown, another one, or revoked."""
        name, shown = target.known_as, f"{key.get_name()} {fingerprint(key)}"
        if any(entry.key == key and _is_about(entry, name) for entry in self._revoked):
            message = f"{target.name}: its host key is marked as revoked: {shown}; nothing was sent to it"
            raise SshError("revoked_host_key", message, "ask who revoked it")
        known = [entry.key for entry in self._keys if _is_about(entry, name)]
        if key in known:
            return
        if not known:
            message = f"{target.name}: host key of {name} is not in {self._where()}: {shown}"
            raise SshError("unknown_host_key", message, UNKNOWN_HINT)
        message = (
            f"{target.name}: THE HOST KEY OF {name} HAS CHANGED: it is {shown}, "
            f"known is {', '.join(fingerprint(one) for one in known)}; nothing was sent to it"
        )
        raise SshError("changed_host_key", message, f"find out why; if it was installed anew: ssh-keygen -R '{name}'")

    def _where(self) -> str:
        return str(self.files[0]) if self.files else "any known_hosts file"


def _is_about(entry: HostKeyEntry, name: str) -> bool:
    """Whether a line of known_hosts is about the host `name`, as OpenSSH has it."""
    from paramiko import HostKeys

    found = False
    for one in entry.hostnames or []:
        if one.startswith("|1|"):
            found |= hmac.compare_digest(HostKeys.hash_host(name, one), one)
        elif re.fullmatch(_pattern(one.removeprefix("!")), name, re.IGNORECASE):
            if one.startswith("!"):
                return False
            found = True
    return found


def _pattern(text: str) -> str:
    return re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")


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
        return PKey.from_path(path), ""
    except FileNotFoundError:
        return None, f"{path} is not there"
    except (PasswordRequiredException, TypeError):
        return None, f"{path} has a passphrase (ssh-add it)"
    except OSError as error:
        return None, f"{path}: {error.strerror}"
    except (UnknownKeyType, SSHException, ValueError):
        return None, f"{path} is no private key"


def _public(path: Path) -> bytes | None:
    """What `path`.pub says, for a key that only the agent can use."""
    try:
        return base64.b64decode(Path(f"{path}.pub").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
