"""The inventory's ways to its hosts as a configuration file of OpenSSH, for launchers that start `ssh` themselves."""

from __future__ import annotations

from collections.abc import Iterable

from harness.errors import UsageError
from harness.hosts.ssh.target import Target

ALIVE_S = 5


def ssh_config(targets: Iterable[Target]) -> str:
    """Hosts by their inventory name. Only keys, only hosts that are known, nothing asked. UsageError for a path that
    cannot be written down."""
    stanzas: dict[str, str] = {}
    for target in targets:
        _add(stanzas, target, target.name)
    return "".join(stanzas.values())


def _add(stanzas: dict[str, str], target: Target, name: str) -> None:
    jump = f"r2cc-jump-{target.jump.user}-{target.jump.address}-{target.jump.port}" if target.jump else "none"
    if target.jump is not None and jump not in stanzas:
        _add(stanzas, target.jump, jump)
    agent = {"all": {}, "named": {"IdentitiesOnly": "yes"}, "none": {"IdentityAgent": "none"}}[target.agent]
    if target.agent_socket is not None:
        agent["IdentityAgent"] = _quoted(target.agent_socket)
    options: dict[str, object] = {
        "HostName": target.address,
        "User": target.user,
        "Port": target.port,
        **({"HostKeyAlias": target.key_alias} if target.key_alias else {}),
        **agent,
        "UserKnownHostsFile": " ".join(_quoted(path) for path in target.known_hosts) or "/dev/null",
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "PasswordAuthentication": "no",
        "BatchMode": "yes",
        "ConnectTimeout": max(1, round(target.connect_timeout_s)),
        "ServerAliveInterval": ALIVE_S,
        "ServerAliveCountMax": max(1, round(target.silence_s / ALIVE_S)),
        **_way(target, jump),
    }
    keys = [f"  IdentityFile {_quoted(key)}\n" for key in target.keys] or ["  IdentityFile none\n"]
    lines = [f"  {option} {value}\n" for option, value in options.items()]
    stanzas[name] = "".join([f"Host {name}\n", *lines, *keys])


def _way(target: Target, jump: str) -> dict[str, str]:
    """A command's `%` are to be itself: its tokens have been filled in."""
    if target.proxy_command is None:
        return {"ProxyJump": jump}
    if "\n" in target.proxy_command:
        raise UsageError(f"the ProxyCommand of {target.name} has several lines", "write it on one line")
    return {"ProxyCommand": target.proxy_command.replace("%", "%%")}


def _quoted(path: object) -> str:
    """OpenSSH has no escape for a quotation mark, and takes `%` and `~` for its own."""
    text = str(path)
    if any(letter in text for letter in '"\n'):
        raise UsageError(f"{text!r} cannot be written into a configuration of ssh", "rename it")
    return '"' + text.replace("%", "%%") + '"'
