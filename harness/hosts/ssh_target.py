"""Where a host is reached over SSH and as whom: the inventory's words, then `~/.ssh/config`, then SSH's defaults."""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.errors import UsageError

if TYPE_CHECKING:
    from paramiko import SSHConfig

SSH_PORT = 22
MOST_JUMPS = 8
DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
JUMP = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>\[[^\]\s]+\]|[^:@\s,]+)(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True)
class Asked:
    """What the user said of one host; None: not said. `address` is what `~/.ssh/config` is asked about."""

    name: str
    address: str | None = None
    user: str | None = None
    port: int | None = None
    key: str | None = None
    jump: str | None = None
    known_hosts: str | None = None


@dataclass(frozen=True)
class Target:
    """Everything needed to open one connection. Only paths of keys, never what is in them."""

    name: str
    address: str
    user: str
    port: int = SSH_PORT
    keys: tuple[Path, ...] = ()
    agent: Literal["all", "named", "none"] = "all"
    """Which of the agent's keys are offered; "named": those whose public half lies beside one of `keys`."""
    known_hosts: tuple[Path, ...] = ()
    key_alias: str | None = None
    jump: Target | None = None
    connect_timeout_s: float = 10.0
    silence_s: float = 15.0
    """A host that acknowledges nothing for so long is lost."""

    @property
    def known_as(self) -> str:
        """Its name in known_hosts."""
        if self.key_alias is not None:
            return self.key_alias
        return self.address if self.port == SSH_PORT else f"[{self.address}]:{self.port}"

    @property
    def shown(self) -> str:
        return f"{self.user}@{self.address}" + ("" if self.port == SSH_PORT else f":{self.port}")


def read_config(path: Path) -> SSHConfig:
    """`~/.ssh/config`; empty when there is none. `Include` is followed. UsageError when it cannot be understood."""
    from paramiko import SSHConfig
    from paramiko.ssh_exception import ConfigParseError

    try:
        return SSHConfig.from_text("\n".join(_lines(path, depth=0)) if path.is_file() else "")
    except (OSError, UnicodeDecodeError, ConfigParseError) as error:
        raise UsageError(f"cannot read {path}: {error}", "`ssh -G HOST` shows what OpenSSH makes of it") from error


def _lines(path: Path, depth: int) -> list[str]:
    lines: list[str] = []
    for line in path.read_text().splitlines():
        found = re.fullmatch(r"\s*include[\s=]+(.+?)\s*", line, re.IGNORECASE)
        if found is None:
            lines.append(line)
            continue
        for pattern in found[1].replace('"', "").split():
            lines += _included(pattern, path, depth + 1)
    return lines


def _included(pattern: str, path: Path, depth: int) -> list[str]:
    """A relative name is beside the user's configuration, as in OpenSSH; files that are not there are no error."""
    if depth > 16:
        raise OSError(f"Include goes too deep at {path}")
    full = Path(pattern).expanduser() if pattern.startswith("~") else path.parent / pattern
    found = sorted(Path(full.anchor).glob(str(full.relative_to(full.anchor)))) if full.is_absolute() else [full]
    return [line for file in found if file.is_file() for line in _lines(file, depth)]


def resolve(asked: Asked, config: SSHConfig, *, home: Path | None = None, jumps: int = 0) -> Target:
    """One host's target. UsageError for a jump that is no host, a circle of jumps, and for what is not supported."""
    home = home or Path.home()
    options = _looked_up(config, asked.address or asked.name)
    if options.get("proxycommand"):
        raise UsageError(f"{asked.name}: ProxyCommand is not supported", "use ProxyJump, or `jump` in the inventory")
    target = Target(
        name=asked.name,
        address=options["hostname"],
        user=asked.user or options.get("user") or _login(),
        port=asked.port or int(options.get("port", SSH_PORT)),
        keys=_keys(asked, options, home),
        agent=_agent(options),
        known_hosts=_known_hosts(asked, options, home),
        key_alias=options.get("hostkeyalias"),
        connect_timeout_s=_seconds(options.get("connecttimeout"), Target.connect_timeout_s),
    )
    jump = asked.jump or options.get("proxyjump", "none")
    return target if jump.lower() == "none" else replace(target, jump=_jump(asked, jump, config, home, jumps + 1))


def _jump(asked: Asked, text: str, config: SSHConfig, home: Path, jumps: int) -> Target:
    """`a,b`: b is reached through a. What the inventory says of keys holds for its own jumps too."""
    *before, last = [part.strip() for part in text.split(",")]
    found = JUMP.fullmatch(last)
    if found is None:
        raise UsageError(f"{asked.name}: jump '{last}' is no host", "write it as [user@]host[:port]")
    if jumps > MOST_JUMPS:
        raise UsageError(
            f"{asked.name}: more than {MOST_JUMPS} jumps, or a circle of them", "see ProxyJump in ~/.ssh/config"
        )
    port = int(found["port"]) if found["port"] else None
    ours = asked.jump is not None
    hop = Asked(
        name=last,
        address=found["host"].strip("[]"),
        user=found["user"],
        port=port,
        key=asked.key if ours else None,
        jump=",".join(before) or None,
        known_hosts=asked.known_hosts,
    )
    return resolve(hop, config, home=home, jumps=jumps)


def _looked_up(config: SSHConfig, address: str) -> Mapping[str, str]:
    from paramiko.ssh_exception import ConfigParseError, CouldNotCanonicalize

    try:
        return dict(config.lookup(address))
    except (ConfigParseError, CouldNotCanonicalize, KeyError, ValueError) as error:
        raise UsageError(f"{address}: cannot be looked up in ~/.ssh/config: {error}", "see `ssh -G`") from error


def _keys(asked: Asked, options: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """What was named; SSH's default keys only if nothing was."""
    named = [asked.key] if asked.key else list(options.get("identityfile", []))
    if named:
        return tuple(expanded(name, home) for name in named)
    return tuple(path for name in DEFAULT_KEYS if (path := home / ".ssh" / name).is_file())


def _agent(options: Mapping[str, str]) -> Literal["all", "named", "none"]:
    if options.get("identityagent", "").lower() == "none":
        return "none"
    return "named" if options.get("identitiesonly", "").lower() == "yes" else "all"


def _known_hosts(asked: Asked, options: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    if asked.known_hosts:
        return (expanded(asked.known_hosts, home),)
    users = options.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2").split()
    systems = options.get("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2").split()
    return tuple(expanded(name, home) for name in [*users, *systems] if name.lower() != "none")


def expanded(name: str, home: Path) -> Path:
    return home / name[2:] if name.startswith("~/") else Path(name).expanduser()


def _seconds(text: str | None, default: float) -> float:
    return float(text) if text and text.isdigit() and int(text) > 0 else default


@cache
def _login() -> str:
    return getpass.getuser()
