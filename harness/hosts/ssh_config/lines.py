"""One file of configuration as lines: keyword and words, with OpenSSH's rules for quotes, `=` and comments."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError

BLANKS = " \t\r\n"
HINT = "`ssh -G HOST` shows what OpenSSH makes of it"


class SshConfigError(UsageError):
    """A configuration that `ssh` would not take either; the message has the file and the line."""

    def __init__(self, where: str, what: str, hint: str = HINT) -> None:
        super().__init__(f"cannot read {where}: {what}", hint)


@dataclass(frozen=True)
class Line:
    """`keyword` is in lower case. `rest` is all that follows it, as it stands; `words` is the same without quotes."""

    file: Path
    number: int
    keyword: str
    rest: str
    words: tuple[str, ...]

    def error(self, what: str) -> SshConfigError:
        return SshConfigError(f"{self.file}:{self.number}", what)

    def unknown(self) -> SshConfigError:
        hint = f"correct it; if another machine's ssh knows it: IgnoreUnknown {self.keyword}, above it"
        return SshConfigError(f"{self.file}:{self.number}", f"ssh has no option '{self.keyword}'", hint)


def read(file: Path) -> list[Line] | None:
    """The lines of a file; None: there is no such file. Raises SshConfigError.

    Bytes that are no UTF-8 are kept: they may stand in comments. As with `ssh`, a file that others may write to is
    not believed, because `Match exec` and ProxyCommand run what it says.
    """
    try:
        status = file.stat()
        if stat.S_ISDIR(status.st_mode):
            return None
        _require_ours(file, status)
        return parse(file.read_text(encoding="utf-8", errors="surrogateescape"), file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SshConfigError(str(file), f"{error.strerror}") from error


def _require_ours(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SshConfigError(str(file), "it is no plain file")
    if status.st_mode & stat.S_IWOTH:
        raise SshConfigError(str(file), "everybody may write to it", f"chmod o-w {file}")
    if str(status.st_uid) not in ("0", str(os.getuid()), os.environ.get("SUDO_UID")):
        raise SshConfigError(str(file), "it belongs to another user", f"chown it to yourself: {file}")


def parse(text: str, file: Path) -> list[Line]:
    """The same of a text. Raises SshConfigError for unmatched quotes and for a keyword that says nothing."""
    found = (_line(raw, file, number) for number, raw in enumerate(text.split("\n"), 1))
    return [line for line in found if line is not None]


def _line(raw: str, file: Path, number: int) -> Line | None:
    text = raw.partition("\0")[0].strip(BLANKS + "\f")
    if not text or text.startswith("#"):
        return None
    keyword, rest = delimited(text)
    bare = Line(file, number, (keyword or "").lower(), rest or "", ())
    if not rest:
        raise bare.error(f"nothing follows '{keyword or text}'")
    words = split(rest)
    if words is None:
        raise bare.error("a quotation mark has no second one")
    return Line(file, number, bare.keyword, rest, words)


def delimited(text: str) -> tuple[str | None, str | None]:
    """The first word, which may end at one `=`, and what follows. None: a quotation mark without its second one, or
    nothing follows."""
    at = next((index for index, letter in enumerate(text) if letter in BLANKS + '"='), None)
    quote = "'" if text.startswith("'") else '"'
    if quote == "'":
        at = 0
    if at is None:
        return text, None
    if text[at] == quote:
        end = text.find(quote, at + 1)
        return (None, None) if end < 0 else (text[:at] + text[at + 1 : end], text[end + 1 :].lstrip(BLANKS))
    after = text[at + 1 :].lstrip(BLANKS)
    if text[at] != "=" and after.startswith("="):
        after = after[1:].lstrip(BLANKS)
    return text[:at], after


def split(text: str) -> tuple[str, ...] | None:
    """Words with quotes and escapes taken away, up to a `#` that begins one. None: a quotation mark is unmatched."""
    words: list[str] = []
    at = 0
    while at < len(text):
        if text[at] in " \t":
            at += 1
        elif text[at] == "#":
            break
        else:
            word, at = _word(text, at)
            if word is None:
                return None
            words.append(word)
    return tuple(words)


def _word(text: str, at: int) -> tuple[str | None, int]:
    """The word that begins there, and where it ends."""
    word, quote = "", ""
    while at < len(text):
        letter, after = text[at], text[at + 1 : at + 2]
        if letter == "\\" and after and (after in "'\"\\" or (after == " " and not quote)):
            word, at = word + after, at + 1
        elif not quote and letter in " \t":
            break
        elif letter == quote or (not quote and letter in "\"'"):
            quote = "" if quote else letter
        else:
            word += letter
        at += 1
    return (None if quote else word), at
