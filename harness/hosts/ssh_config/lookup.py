"""What the configuration says of one host: of every option the first value that counts, as `ssh -G` prints it."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from harness.hosts.ssh_config import criteria, keywords, lines, tokens
from harness.hosts.ssh_config.canonical import canonical, literal
from harness.hosts.ssh_config.lines import Line, SshConfigError
from harness.hosts.ssh_config.patterns import matches
from harness.hosts.ssh_config.question import Question, local_user

MOST_DEPTH = 16
NONE = "none"
NO_LIMIT = ("connecttimeout", NONE)
"""To OpenSSH that is as if nothing were said: a later line still counts."""


@dataclass(frozen=True)
class Options:
    """The answer. Texts are as they were written; `expanded` puts in what tokens stand for."""

    host: str
    user: str
    port: int
    one: Mapping[str, str] = field(default_factory=dict)
    many: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    identities: tuple[str, ...] = ()
    jump: str | None = None
    """`none`: said to be none."""
    proxy_command: str | None = None
    question: Question = field(default_factory=partial(Question, ""))

    @property
    def alias(self) -> str | None:
        """HostKeyAlias."""
        found = self.one.get("hostkeyalias")
        return None if found is None else found.lower()

    def expanded(self, text: str) -> str:
        """A file's name with its `%` tokens and `${NAME}`. ValueError: one has no value."""
        return tokens.expand(text, self._tokens(), os.environ)

    def command(self) -> str:
        """The ProxyCommand with its tokens. ValueError: one has no value."""
        found = self._tokens()
        return tokens.expand(self.proxy_command or "", {key: found[key] for key in "hknpr"})

    def _tokens(self) -> dict[str, str]:
        return _tokens(self.question, self.host, self.user, self.port, self.alias or self.question.host)


def _tokens(question: Question, host: str, user: str, port: int, alias: str) -> dict[str, str]:
    return tokens.of_connection(
        host=host, asked=question.host, user=user, port=port, alias=alias, local=local_user(), home=question.home
    )


class Config:
    """The user's file, then the system's. Files are read once, however many hosts are asked about."""

    def __init__(self, user: Path | None, system: Path | None = None) -> None:
        """Raises SshConfigError for what is wrong in the files themselves."""
        self._files = [(file, ours) for file, ours in ((user, True), (system, False)) if file is not None]
        self._read: dict[Path, list[Line]] = {}
        self._known: dict[Question, Options] = {}
        self.sound: set[tuple[Path, int]] = set()
        """Lines whose values have been looked at: where they do not count, nothing more is to be done."""
        for file, _ours in self._files:
            self.lines_of(file)

    def lookup(self, question: Question) -> Options:
        """What holds for one host. Raises SshConfigError with file and line."""
        if question not in self._known:
            self._known[question] = self._looked_up(question)
        return self._known[question]

    def _looked_up(self, question: Question) -> Options:
        reading = _Reading(self, question)
        reading.through(self._files, final=False)
        host = reading.settled_host()
        found = canonical(host, reading.one, reading.many, proxied=reading.proxied)
        if found is not None or reading.wants_final:
            reading.host = found or host
            reading.through(self._files, final=True)
        return reading.answer()

    def lines_of(self, file: Path) -> list[Line]:
        """None of them where there is no such file."""
        if file not in self._read:
            self._read[file] = lines.read(file) or []
        return self._read[file]


class _Reading:
    """One host's way through the files."""

    def __init__(self, config: Config, question: Question) -> None:
        self.host = question.host
        self.one: dict[str, str] = {}
        self.many: dict[str, tuple[str, ...]] = {}
        self.wants_final = False
        self.config = config
        self.question = question
        self._identities: list[str] = []
        self._command: str | None = None
        self._jump = question.jump
        self._final = False
        self._ignored = ""
        if question.user is not None:
            self.one["user"] = question.user
        if question.port is not None:
            self.one["port"] = str(question.port)

    @property
    def proxied(self) -> bool:
        return any(each is not None and each.lower() != NONE for each in (self._jump, self._command))

    def through(self, files: Sequence[tuple[Path, bool]], *, final: bool) -> None:
        self._final = final
        for file, ours in files:
            _File(self, file.parent, ours).read(file, counts=True, depth=0)

    def answer(self) -> Options:
        return Options(
            host=self.settled_host(),
            user=self._user,
            port=self._port,
            one=dict(self.one),
            many=dict(self.many),
            identities=tuple(self._identities),
            jump=self._jump,
            proxy_command=self._command,
            question=self.question,
        )

    @property
    def _user(self) -> str:
        return self.one.get("user") or local_user()

    @property
    def _port(self) -> int:
        return int(self.one.get("port", keywords.DEFAULT_PORT))

    def settled_host(self) -> str:
        """HostName's value, with `%h` in it; what was asked for without one. In lower case, unless it is an address."""
        return literal(self._named())

    def _named(self) -> str:
        if self._final:
            return self.host
        try:
            return tokens.expand(self.one.get("hostname", "%h"), {"h": self.host})
        except ValueError as error:
            raise SshConfigError(f"HostName of {self.host}", str(error)) from error

    def facts(self) -> criteria.Facts:
        host = self._named()
        alias = self.one.get("hostkeyalias") or host
        return criteria.Facts(
            host=host,
            original=self.question.host,
            user=self._user,
            local_user=local_user(),
            tag=self.one.get("tag", ""),
            final=self._final,
            tokens=_tokens(self.question, host, self._user, self._port, alias),
        )

    def take(self, line: Line, *, counts: bool, strict: bool) -> None:
        """One option. What is wrong in a line is wrong also where the line does not count. Not `strict`: options that
        nobody knows may be there, as a distribution's ssh has some of its own."""
        keyword = line.keyword
        if not keywords.known(keyword, self._ignored):
            if strict:
                raise line.unknown()
            return
        try:
            self._take(line, counts=counts)
        except ValueError as error:
            raise line.error(f"{keyword}: {error}") from error

    def _take(self, line: Line, *, counts: bool) -> None:
        keyword = line.keyword
        if keyword in keywords.ONE:
            value = keywords.ONE[keyword](_only(line))
            if counts and (keyword, value) != NO_LIMIT:
                self.one.setdefault(keyword, value)
        elif keyword in keywords.MANY:
            if counts:
                self.many.setdefault(keyword, tuple(keywords.text(word) for word in line.words))
        elif keyword == keywords.IDENTITY:
            name = keywords.text(_only(line))
            if counts and name not in self._identities:
                self._identities.append(name)
        elif keyword == keywords.COMMAND and counts and (self._jump or NONE) == NONE and self._command is None:
            self._command = line.rest.lstrip(lines.BLANKS + "=")
        elif keyword == keywords.JUMPS:
            jump = keywords.jumps(line.rest.lstrip(lines.BLANKS + "="))
            if counts and self._jump is None and self._command is None:
                self._jump = jump
        elif keyword == "ignoreunknown" and counts:
            self._ignored = self._ignored or _only(line)


def _only(line: Line) -> str:
    if len(line.words) != 1:
        raise ValueError(f"it has {len(line.words)} values, and takes one")
    return line.words[0]


@dataclass(frozen=True)
class _File:
    """The files of one owner: names that are no whole paths are in `folder`, `~` is the user's alone."""

    reading: _Reading
    folder: Path
    ours: bool

    def read(self, file: Path, *, counts: bool, depth: int) -> None:
        """`counts` False: nothing in it does, whatever its own Host and Match lines say."""
        if depth > MOST_DEPTH:
            raise SshConfigError(str(file), f"Include goes over {MOST_DEPTH} files deep")
        active, sound = counts, self.reading.config.sound
        for line in self.reading.config.lines_of(file):
            if line.keyword == "host":
                active = _is_for(line, self.reading.host) and counts
            elif line.keyword == "match":
                self.reading.wants_final |= any(each.name == "final" for each in criteria.parse(line))
                active = criteria.holds(line, self.reading.facts()) and counts
            elif line.keyword == "include":
                for included in self._included(line):
                    self.read(included, counts=active, depth=depth + 1)
            elif active or (file, line.number) not in sound:
                self.reading.take(line, counts=active, strict=self.ours)
                if line.keyword in keywords.KNOWN:
                    sound.add((file, line.number))

    def _included(self, line: Line) -> list[Path]:
        """Files that are not there are no error, an empty name is. Not by Path.glob: its `*` finds hidden files too."""
        if not all(line.words):
            raise line.error("Include has an empty name")
        found = (sorted(glob.glob(self._whole(word, line))) for word in line.words)  # noqa: PTH207
        return [Path(name) for names in found for name in names]

    def _whole(self, name: str, line: Line) -> str:
        question = self.reading.question
        if name.startswith("~/") and self.ours:
            return str(question.home / name[2:])
        if name.startswith("~") and not self.ours:
            raise line.error(f"Include {name}: the system's configuration has no home")
        try:
            return str(self.folder / Path(name).expanduser())
        except RuntimeError:  # there is no such user, so there is no such file
            return str(self.folder / name)


def _is_for(line: Line, host: str) -> bool:
    """Whether one of a Host line's patterns matches, and none of those that are negated."""
    if not all(line.words):
        raise line.error("Host has an empty pattern")
    found = [word for word in line.words if matches(host, word.removeprefix("!"))]
    return bool(found) and not any(word.startswith("!") for word in found)
