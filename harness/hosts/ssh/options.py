"""What the user's OpenSSH configuration says of one host: `ssh -G` is asked, so that it means what `ssh` means."""

from __future__ import annotations

import getpass
import hashlib
import os
import pwd
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from harness.errors import UsageError

HINT = "`ssh -G HOST` shows what OpenSSH makes of it"
LIMIT_S = 60.0
"""For what `Match exec` runs, and for names that CanonicalizeHostname looks up."""
TOKEN = re.compile(r"%(?P<token>.?)|\$\{(?P<name>[^}]*)\}", re.DOTALL)
SAYS_NOTHING = re.compile(r"^Pseudo-terminal|: terminating, ")
MANY = ("userknownhostsfile", "globalknownhostsfile")
AT_HOME = ("userknownhostsfile", "identityagent")


class SshConfigError(UsageError):
    """A configuration that `ssh` does not take; the message has the file and the line, as far as `ssh` says them."""


@dataclass(frozen=True)
class Question:
    """`host` is what would be typed after `ssh`; user, port and jump what its options -l, -p and -J would say."""

    host: str
    user: str | None = None
    port: int | None = None
    jump: str | None = None

    def words(self) -> list[str]:
        said = {"User": self.user, "Port": self.port, "ProxyJump": self.jump}
        return [word for key, value in said.items() if value is not None for word in ("-o", f"{key}={value}")]


@dataclass(frozen=True)
class Options:
    """The answer. Texts are as they were written; `expanded` puts in what tokens stand for."""

    question: Question
    home: Path
    one: Mapping[str, str]
    """By keyword, in lower case: what `ssh` uses."""
    identities: tuple[str, ...] = ()
    """IdentityFile, as far as somebody wrote it."""

    @property
    def host(self) -> str:
        return self.one["hostname"]

    @property
    def user(self) -> str:
        return self.one["user"]

    @property
    def port(self) -> int:
        return int(self.one["port"])

    @property
    def alias(self) -> str | None:
        """HostKeyAlias."""
        return self.one.get("hostkeyalias")

    def known_hosts(self) -> list[str]:
        """The names of both kinds of known_hosts files. `ssh` quotes no blanks: a new name begins with `/` or `~`."""
        found = (re.split(r" (?=[/~])", self.one[key]) for key in MANY if key in self.one)
        return [self.expanded(name) for names in found for name in names]

    def expanded(self, text: str) -> str:
        """A file's name with its `%` tokens and `${NAME}`. ValueError: one has no value."""

        def value(found: re.Match[str]) -> str:
            if found["name"] is None:
                return self._token(found["token"])
            if found["name"] not in os.environ:
                raise ValueError(f"'{found[0]}' in '{text}': there is no such variable")
            return os.environ[found["name"]]

        return TOKEN.sub(value, text)

    def command(self) -> str:
        """The ProxyCommand with its tokens. ValueError: one has no value."""
        return re.sub(r"%(.?)", lambda found: self._token(found[1]), self.one.get("proxycommand", ""))

    def _token(self, letter: str) -> str:
        machine, port = os.uname().nodename, str(self.port)
        digest = hashlib.sha1(f"{machine}{self.host}{port}{self.user}".encode(), usedforsecurity=False).hexdigest()
        known = {
            **{"%": "%", "C": digest, "d": str(self.home), "h": self.host, "i": str(os.getuid()), "l": machine},
            **{"k": self.alias or self.question.host, "n": self.question.host, "p": port, "r": self.user},
            **{"u": local_user(), "L": machine.partition(".")[0]},
        }
        if letter not in known:
            raise ValueError(f"'%{letter}' has no meaning there")
        return known[letter]


@dataclass(frozen=True)
class Config:
    """`file` is read in place of the user's and the system's configuration. Every host is asked about once."""

    file: Path | None = None
    home: Path = field(default_factory=Path.home)
    _known: dict[Question, Options | SshConfigError] = field(default_factory=dict, compare=False)

    def lookup(self, question: Question) -> Options:
        """What holds for one host; from any thread. SshConfigError with what `ssh` says, where it takes no part."""
        if question not in self._known:
            try:
                self._known[question] = self._looked_up(question)
            except SshConfigError as error:
                self._known[question] = error
        found = self._known[question]
        if isinstance(found, SshConfigError):
            raise found
        return found

    def _looked_up(self, question: Question) -> Options:
        if self.file is not None and not self.file.is_file():
            words = ["-F", "none"]
        else:
            words = [] if self.file is None else ["-F", str(self.file)]
        told = _asked([*words, *question.words(), "--", question.host])
        if told is None:
            return self._without_ssh(question)
        named = [value for key, value in told if key == "identityfile"]
        one = {key: self._at_home(value) if key in AT_HOME else value for key, value in told}
        return Options(question, self.home, one, () if named == _usual_keys() else tuple(named))

    def _at_home(self, value: str) -> str:
        """`ssh` fills in the home that the system knows of, which is not where HOME may be."""
        return re.sub(rf"(?:^|(?<= )){re.escape(_system_home())}(?=/)", str(self.home), value)

    def _without_ssh(self, question: Question) -> Options:
        file = self.file or self.home / ".ssh" / "config"
        if file.is_file():
            raise SshConfigError(f"cannot read {file}: `ssh` is not installed", "apt install openssh-client")
        user, port = question.user or local_user(), question.port or 22
        one = {"hostname": question.host.lower(), "user": user, "port": str(port)}
        return Options(question, self.home, one | ({"proxyjump": question.jump} if question.jump else {}))


def users_config(home: Path) -> Config:
    """What `ssh` itself would read for the user whose home that is."""
    return Config(None if home == Path(_system_home()) else home / ".ssh" / "config", home)


def _asked(words: list[str]) -> list[tuple[str, str]] | None:
    """What `ssh -G` prints, as keyword and value. None: there is no `ssh` here."""
    try:
        done = subprocess.run(
            ["ssh", "-G", *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False
        )
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired as error:
        raise SshConfigError(f"`ssh -G {words[-1]}` did not end within {LIMIT_S:g} s", HINT) from error
    if done.returncode:
        said = [line for line in done.stderr.decode(errors="replace").splitlines() if not SAYS_NOTHING.search(line)]
        raise SshConfigError(f"cannot read the configuration of ssh: {'; '.join(said) or 'ssh says not why'}", HINT)
    lines = done.stdout.decode(errors="surrogateescape").splitlines()
    return [(key, value) for key, _, value in (line.partition(" ") for line in lines)]


@cache
def _usual_keys() -> list[str]:
    """Those that `ssh` names where nobody names any."""
    return [value for key, value in _asked(["-F", "none", "--", "any"]) or () if key == "identityfile"]


@cache
def _system_home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return str(Path.home())


@cache
def local_user() -> str:
    """As OpenSSH has it: the name of our user id, whatever the environment says."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return getpass.getuser()
