"""The user's ssh configuration means what `ssh -G` says of it: configurations made by chance, and odd ones."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.hosts.ssh_config import Config, Question, SshConfigError

SSH = shutil.which("ssh")
needs_ssh = pytest.mark.skipif(SSH is None, reason="openssh-client is not installed")
HOSTS = ("web1", "WEB2", "db7.lan", "relay", "198.51.100.7", "2001:db8::7", "a-b_c")
SHOWN = ("hostname", "user", "port", "hostkeyalias", "proxyjump", "proxycommand", "userknownhostsfile")


@dataclass(frozen=True)
class Told:
    """What `ssh -G` printed; None: it refused."""

    one: dict[str, str]
    identities: list[str]


def asked_of_ssh(file: Path, host: str, *options: str) -> Told | None:
    words = [str(SSH), "-F", str(file), *options, "-G", host]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    if done.returncode != 0:
        return None
    pairs = [line.partition(" ")[::2] for line in done.stdout.splitlines()]
    return Told(dict(pairs), [value for key, value in pairs if key == "identityfile"])


def asked_of_us(file: Path, question: Question) -> Told | None:
    try:
        found = Config(file).lookup(question)
    except SshConfigError:
        return None
    one = {"hostname": found.host, "user": found.user, "port": str(found.port)}
    one |= {"hostkeyalias": found.alias} if found.alias else {}
    one |= {"proxyjump": found.jump} if found.jump and found.jump != "none" else {}
    command = found.proxy_command
    one |= {"proxycommand": command} if command and command.lower() != "none" else {}
    one |= {key: " ".join(words) for key, words in found.many.items()}
    one |= {key: found.one[key] for key in ("identitiesonly", "connecttimeout") if key in found.one}
    return Told(one, list(found.identities))


def compare(folder: Path, config: str, host: str, user: str | None = None, port: int | None = None) -> None:
    file = folder / "config"
    file.write_text(config)
    options = [*(["-l", user] if user else []), *(["-p", str(port)] if port else [])]
    theirs, ours = asked_of_ssh(file, host, *options), asked_of_us(file, Question(host, user, port, home=folder))
    assert (theirs is None) == (ours is None), (theirs and "ssh takes it", config)
    if theirs is None or ours is None:
        return
    for key in {*SHOWN, *ours.one} & {*theirs.one, *ours.one}:
        default = key in ("userknownhostsfile",) and key not in ours.one
        assert default or ours.one.get(key) == theirs.one.get(key), (key, config)
    assert not ours.identities or ours.identities == theirs.identities, config


names = st.sampled_from(HOSTS)
patterns = st.sampled_from(
    ["*", "web?", "web*", "!web1", "WEB2", "web2", "*.lan", "!*.lan", "198.51.*", "relay", "2001:*", "a-b_c", "*b*c"]
)
users = st.sampled_from(["ann", "bert", "root", "x.y"])
quoted = st.sampled_from(["{}", '"{}"'])
gaps = st.sampled_from([" ", "  ", "\t", "=", " = ", "= "])


@st.composite
def spelt(draw: st.DrawFn, word: str) -> str:
    return draw(st.sampled_from([word, word.lower(), word.upper()]))


SELDOM = [
    ("User", ["x y", ""]),
    ("Port", ["0", "65536", "22x", "-1", " 22"]),
    ("ConnectTimeout", ["1x", "5 5"]),
    ("IdentitiesOnly", ["perhaps"]),
    ("LaterKnown", ["x"]),
    ("bogus", ["y"]),
    ("IdentityFile", ["/a b", "a\\ b", "'/c d'", '"/e"f', "${HOME}/k"]),
    ("UserKnownHostsFile", ['"/a b" /c', "", "'/x y'"]),
    ("HostName", ["", "%n.x", "%%h"]),
    ("ProxyCommand", ["'unmatched", "=x", '"quoted command" %h']),
    ("ProxyJump", ["a,,b", "", "a:0", "a:99999", "@a", "u@v@w", "[::1]", "a # words"]),
]
"""Wrong, or only seldom right."""


@st.composite
def option(draw: st.DrawFn) -> str:
    keyword, values = draw(
        st.sampled_from(
            [
                ("User", ["ann", "bert", "x.y"]),
                ("Port", ["22", "2201", "ssh", "65535"]),
                ("HostName", ["%h.example", "Real.Example", "198.51.100.9", "x%%y", "2001:DB8:0::1"]),
                ("HostKeyAlias", ["One", "two"]),
                ("IdentityFile", ["~/.ssh/k1", "%d/k2", "/k/3", "none"]),
                ("IdentitiesOnly", ["yes", "no", "True"]),
                ("ConnectTimeout", ["3", "2m", "1m30s", "1h", "none"]),
                ("ProxyJump", ["hop", "ann@hop:2201", "a,b@[2001:db8::1]:22", "none", "ssh://z@hop:99"]),
                ("ProxyCommand", ["nc %h %p", "none", "ssh -W %h:%p relay"]),
                ("UserKnownHostsFile", ["/k/a", "/k/a /k/b", "none"]),
                ("ServerAliveInterval", ["60"]),
                ("SendEnv", ["LANG LC_*"]),
                ("IgnoreUnknown", ["later*,bogus", "nothing"]),
                draw(st.sampled_from(SELDOM)),
            ]
        )
    )
    value = draw(st.sampled_from(values))
    if not set(value) & set(" \"'\\") and not keyword.startswith("Proxy"):
        value = draw(quoted).format(value)
    comment = "" if keyword.startswith("Proxy") else draw(st.sampled_from(["", "", " # words"]))
    return f"{draw(spelt(keyword))}{draw(gaps)}{value}{comment}"


@st.composite
def criterion(draw: st.DrawFn) -> str:
    negated = draw(st.sampled_from(["", "", "!"]))
    kind = draw(st.sampled_from(["host", "originalhost", "user", "localuser", "exec", "final", "canonical"]))
    word = negated + draw(spelt(kind))
    if kind in ("final", "canonical"):
        return word
    if kind == "exec":
        argument = draw(st.sampled_from(["true", "false", '"test %p = 22"', '"test %r = ann"', '"test %h = web1"']))
    elif kind in ("user", "localuser"):
        argument = ",".join(draw(st.lists(st.sampled_from(["ann", "!bert", "*", "r??t"]), min_size=1, max_size=3)))
    else:
        argument = ",".join(draw(st.lists(patterns, min_size=1, max_size=3)))
    return f"{word}{draw(gaps)}{argument}"


@st.composite
def block(draw: st.DrawFn) -> str:
    head = draw(st.sampled_from(["host", "host", "match", "match", "all", "none"]))
    if head == "host":
        first = f"{draw(spelt('Host'))}{draw(gaps)}{' '.join(draw(st.lists(patterns, min_size=1, max_size=3)))}"
    elif head == "match":
        first = f"{draw(spelt('Match'))} {' '.join(draw(st.lists(criterion(), min_size=1, max_size=3)))}"
    else:
        first = "Match all" if head == "all" else "# nothing"
    indent = draw(st.sampled_from(["", "  ", "\t"]))
    return "\n".join([first, *(indent + line for line in draw(st.lists(option(), max_size=4)))])


@st.composite
def configuration(draw: st.DrawFn) -> tuple[str, list[str]]:
    """The main file, with `@N@` where the Nth of the others is included."""
    others = draw(st.lists(st.lists(block(), min_size=1, max_size=2).map("\n".join), max_size=2))
    parts = draw(st.lists(block(), min_size=1, max_size=4))
    for index in range(len(others)):
        at = draw(st.integers(0, len(parts)))
        parts.insert(at, f"  {draw(spelt('Include'))} @{index}@")
    return "\n".join(parts) + "\n", others


@needs_ssh
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(configuration(), names, st.none() | users, st.none() | st.sampled_from([22, 2201]))
def test_any_configuration_means_what_ssh_makes_of_it(
    tmp_path: Path, made: tuple[str, list[str]], host: str, user: str | None, port: int | None
) -> None:
    text, others = made
    for index, other in enumerate(others):
        (tmp_path / f"other{index}").write_text(other)
        text = text.replace(f"@{index}@", str(tmp_path / f"other{index}"))
    compare(tmp_path, text, host, user, port)


ODD = [
    *(f"{keyword} {value}\n" for keyword, values in SELDOM for value in values),
    "IgnoreUnknown Odd*\nOddOption x\n",
    "OddOption x\nIgnoreUnknown Odd*\n",
    "Host other\n  IgnoreUnknown Odd*\nHost *\n  OddOption x\n",
    "  User\tann  \t\r\n",
    '"User" ann\n',
    "User=ann\nPort == 5\n",
    "User ann#bert\n",
    "User 'ann'\nIdentityFile '/a b'\n",
    'Host "web1"\n  User ann\n',
    'Host web1 "x y" # z\n  User ann\n',
    "Host *,web1\n  User ann\n",
    "Host WEB1\n  User ann\n",
    "Host !web1 *\n  User ann\n",
    "Host * !web1\n  User ann\n",
    "Host !other\n  User ann\n",
    'Host ""\n  User ann\n',
    "Host #web1\n  User ann\n",
    "Match all # words\n  User ann\n",
    "Match !all\n  User ann\n",
    "Match all host web1\n  User ann\n",
    "Match host web1 all\n  User ann\n",
    "Match final all\n  User ann\n",
    "Match canonical final all\n  User ann\n",
    "Match user root user ann\n  User ann\n",
    "User ann\nMatch user ann\n  Port 2201\n",
    "Match host=web1 user=root\n  User ann\n",
    "Match host = web1\n  User ann\n",
    'Match host "web1"\n  User ann\n',
    'Match exec "test a = a"\n  User ann\n',
    'Match exec "exit 3" exec "touch /nowhere/at/all"\n  User ann\n',
    "Match exec %z\n  User ann\n",
    "Match host WEB1\n  User ann\n",
    "Match host web1, user *\n  User ann\n",
    "Match host !web1,*\n  User ann\n",
    "Match !host web1\n  User ann\n",
    "Match host\n  User ann\n",
    "Match\n",
    "HostName Other.Name\nMatch host other.name\n  User ann\n",
    "HostName other\nHost other\n  User ann\nMatch final host other\n  Port 2201\n",
    "Match final\n  User ann\nHost *\n  User bert\n",
    "Match final\n  HostName later\nMatch host later\n  User ann\n",
    "ProxyJump none\nProxyJump hop\n",
    "ProxyCommand none\nProxyJump hop\n",
    "ProxyJump hop # words\n",
    "ProxyCommand = nc %h %p # words\n",
    "UserKnownHostsFile /a\nUserKnownHostsFile /b\n",
    "IdentityFile /a\nIdentityFile /a\nIdentityFile ~/a\n",
    "Include /nowhere/at/all\nUser ann\n",
    "Include /nowhere/*/x /also/nowhere\nUser ann\n",
    "Include ''\nUser ann\n",
    "CanonicalizeHostname yes\nCanonicalDomains invalid\nMatch canonical\n  User ann\n",
    "CanonicalizeHostname yes\nCanonicalDomains invalid\nCanonicalizeFallbackLocal no\n",
    "CanonicalizeHostname perhaps\n",
    "CanonicalizeMaxDots x\n",
    "ConnectTimeout 0\nConnectTimeout 5\n",
    "Port 22 22\n",
    "\ufeffUser ann\n",
]


@needs_ssh
@pytest.mark.parametrize("host", ["web1", "192.0.2.7"])
@pytest.mark.parametrize("config", ODD)
def test_odd_lines_mean_what_ssh_makes_of_them(config: str, host: str, tmp_path: Path) -> None:
    compare(tmp_path, config, host)
