"""Where a host is reached over SSH and as whom: the inventory's words, then `~/.ssh/config`, then SSH's defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from harness.errors import UsageError
from harness.hosts.ssh.options import Config, Options, Question

SSH_PORT = 22
MOST_JUMPS = 8
MOST_AT_ONCE = 16
DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
USER_LETTERS = "'`\";&<>|(){}"
HOST_LETTERS = USER_LETTERS + "$\\"
"""What a shell would take for more than a word."""
JUMP = re.compile(r"(?:(?P<user>[^\s,]+)@)?(?P<host>\[[^\]\s]+\]|[^:@\s,]+)(?::(?P<port>\d{1,5}))?")
NONE, AGENT = "none", "SSH_AUTH_SOCK"


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
    proxy_command: str | None = None
    """What is run here, by a shell, in place of a connection; its input and output are the connection."""
    agent_socket: Path | None = None
    """Where the agent listens; None: where SSH_AUTH_SOCK says."""
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

    @property
    def by_hand(self) -> str:
        """What somebody types to see why it does not answer, as the same user."""
        return f"ssh -v -p {self.port} {self.user}@{self.address}"


def is_hop(text: str) -> bool:
    """Whether it is `[user@]host[:port]`."""
    found = JUMP.fullmatch(text)
    return found is not None and (found["port"] is None or 0 < int(found["port"]) < 65536)


def resolve(asked: Asked, config: Config, *, jumps: int = 0) -> Target:
    """One host's target. UsageError for a jump that is no host, a circle of jumps, and for what is not supported;
    SshConfigError for what is wrong in the configuration itself."""
    _require_harmless(asked)
    question = Question(asked.address or asked.name, asked.user, asked.port, asked.jump)
    options = config.lookup(question)
    try:
        target = _target(asked, options)
        command = _command(asked, options)
    except ValueError as error:
        raise UsageError(f"{asked.name}: in ~/.ssh/config: {error}", "see `ssh -G`") from error
    jump = options.one.get("proxyjump", NONE)
    if command is not None or jump.lower() == NONE:
        return replace(target, proxy_command=command)
    return replace(target, jump=_jump(asked, jump, config, jumps + 1))


def resolve_all(asked: Sequence[Asked], config: Config) -> list[Target | UsageError]:
    """Of each host its target, or why it has none; several hosts are looked up at the same time."""

    def one(host: Asked) -> Target | UsageError:
        try:
            return resolve(host, config)
        except UsageError as error:
            return error

    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        return list(pool.map(one, asked))


def _require_harmless(asked: Asked) -> None:
    """ProxyCommand and `Match exec` put these words into a shell's line; OpenSSH refuses the same ones."""
    for what, text, letters in (
        ("host", asked.address or asked.name, HOST_LETTERS),
        ("user", asked.user, USER_LETTERS),
    ):
        wrong = [letter for letter in text or "" if letter in letters or letter.isspace()]
        if wrong or (text or "").startswith("-"):
            raise UsageError(f"{asked.name}: '{text}' cannot be a {what}", f"without '{''.join(wrong) or '-'}'")


def _target(asked: Asked, options: Options) -> Target:
    return Target(
        name=asked.name,
        address=options.host,
        user=options.user,
        port=options.port,
        keys=_keys(asked, options),
        agent=_agent(options),
        agent_socket=_agent_socket(options),
        known_hosts=_known_hosts(asked, options),
        key_alias=options.alias,
        connect_timeout_s=_seconds(options.one.get("connecttimeout"), Target.connect_timeout_s),
    )


def _command(asked: Asked, options: Options) -> str | None:
    """What to run instead of connecting; its input and output are the connection. Where the inventory says of jumps
    what it wants, `none` included, that is all."""
    if asked.jump is not None or options.one.get("proxycommand", NONE).lower() == NONE:
        return None
    if options.one.get("proxyusefdpass") == "yes":
        raise UsageError(f"{asked.name}: ProxyUseFdpass is not supported", "use ProxyJump, or `jump` in the inventory")
    return options.command()


def _jump(asked: Asked, text: str, config: Config, jumps: int) -> Target:
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
    return resolve(hop, config, jumps=jumps)


def _keys(asked: Asked, options: Options) -> tuple[Path, ...]:
    """What was named; SSH's default keys only if nothing was."""
    home = options.home
    if asked.key:
        return (expanded(asked.key, home),)
    if options.identities:
        named = [options.expanded(name) for name in options.identities if name.lower() != NONE]
        return tuple(expanded(name, home) for name in named)
    return tuple(path for name in DEFAULT_KEYS if (path := home / ".ssh" / name).is_file())


def _agent(options: Options) -> Literal["all", "named", "none"]:
    if options.one.get("identityagent", "").lower() == NONE:
        return "none"
    return "named" if options.one.get("identitiesonly") == "yes" else "all"


def _agent_socket(options: Options) -> Path | None:
    """None: the one that the environment names. `$NAME` is a variable that names one."""
    said = options.one.get("identityagent", AGENT)
    if said.lower() == NONE or said == AGENT:
        return None
    named = os.environ.get(said[1:], "") if re.fullmatch(r"\$\w+", said) else options.expanded(said)
    return expanded(named, options.home) if named else None


def _known_hosts(asked: Asked, options: Options) -> tuple[Path, ...]:
    home = options.home
    if asked.known_hosts:
        return (expanded(asked.known_hosts, home),)
    return tuple(expanded(name, home) for name in options.known_hosts() if name.lower() != NONE)


def expanded(name: str, home: Path) -> Path:
    """`~` is the given home; of `~name`, where there is no such user, nothing is made."""
    if name == "~" or name.startswith("~/"):
        return home / name[2:]
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def _seconds(text: str | None, default: float) -> float:
    return float(text) if text and text.isdigit() and int(text) > 0 else default
