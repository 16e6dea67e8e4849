"""`%h`, `%%` and `${NAME}` in values of the configuration."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path

TOKEN = re.compile(r"%(?P<token>.?)|\$\{(?P<name>[^}]*)(?P<closed>\}?)", re.DOTALL)
PLAIN = re.compile(r"%(?P<token>.?)", re.DOTALL)


def expand(text: str, tokens: Mapping[str, str], environment: Mapping[str, str] | None = None) -> str:
    """Each `%x` by its value; `${NAME}` too where an environment is given. ValueError: there is no such value."""

    def value(found: re.Match[str]) -> str:
        if found["token"] is not None:
            return _token(found["token"], tokens)
        assert environment is not None
        if not found["closed"] or found["name"] not in environment:
            raise ValueError(f"'{found[0]}' in '{text}': there is no such variable")
        return environment[found["name"]]

    return (PLAIN if environment is None else TOKEN).sub(value, text)


def _token(letter: str, tokens: Mapping[str, str]) -> str:
    if letter == "%":
        return "%"
    if letter not in tokens:
        raise ValueError(f"'%{letter}' has no meaning there")
    return tokens[letter]


def of_connection(*, host: str, asked: str, user: str, port: int, alias: str, local: str, home: Path) -> dict[str, str]:
    """The tokens of one connection. `host` is where it goes, `asked` what the user called it, `alias` what known_hosts
    does, `local` the user here."""
    machine = socket.gethostname()
    digest = hashlib.sha1(f"{machine}{host}{port}{user}".encode(), usedforsecurity=False).hexdigest()
    return {
        **{"C": digest, "L": machine.partition(".")[0], "l": machine, "d": str(home), "i": str(os.getuid())},
        **{"h": host, "n": asked, "p": str(port), "r": user, "u": local, "k": alias},
    }
