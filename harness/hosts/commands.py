"""What all hosts share about commands: the errors of a failed one, where programs are looked for, copying of files."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from harness.errors import CommandError
from harness.hosts.base import STDERR_LINES_QUOTED, Result


def shown(argv: Sequence[str]) -> str:
    """As one would type it, but on one line: of a script that is a word of it, the first line and how many follow."""
    return " ".join(_word(word) for word in argv)


def _word(word: str) -> str:
    first, *rest = word.strip().splitlines() or [""]
    return shlex.quote(f"{first} ... ({len(rest)} more lines)" if rest else word)


def command_error(host: str, result: Result, hint: str | None = None) -> CommandError:
    """The one shape of "a command failed": host, argv, exit code, the last lines of stderr, what to try next."""
    tail = last_lines(result.stderr)
    message = f"{host}: command failed with exit code {result.exit_code}: {shown(result.argv)}"
    return CommandError(message + (f"\n{indent(tail)}" if tail else ""), hint or _hint(result))


def timeout_error(host: str, argv: Sequence[str], timeout_s: float, stderr: str = "") -> CommandError:
    tail = last_lines(stderr)
    message = f"{host}: command still ran after {timeout_s:g} s and was killed: {shown(argv)}"
    return CommandError(message + (f"\n{indent(tail)}" if tail else ""), "allow it more time, or see what it waits for")


def start_error(host: str, argv: Sequence[str], error: OSError) -> CommandError:
    """The command could not even be started: not found, not executable, argument list too long."""
    message = f"{host}: cannot start {shown(argv)}: {error.strerror or error}"
    return CommandError(message, _install_hint(argv[0]) if argv else "give a command")


def last_lines(text: str, lines: int = STDERR_LINES_QUOTED) -> str:
    return "\n".join(text.rstrip().splitlines()[-lines:])


def indent(text: str) -> str:
    return "\n".join(f"  | {line}" for line in text.splitlines())


def search_path(env: Mapping[str, str]) -> str:
    """PATH with the system administrator's folders: a plain user's PATH lacks them, yet ip and nft live there."""
    parts = env.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(parts + [extra for extra in ("/usr/sbin", "/sbin") if extra not in parts])


def merged_env(env: Mapping[str, str] | None) -> dict[str, str]:
    """The caller's environment plus `env`, with a PATH on which `ip`, `tc` and `nft` are found."""
    merged = {**os.environ, **(env or {})}
    merged["PATH"] = search_path(merged)
    return merged


_PACKAGES = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables", "ping": "iputils-ping", "nsenter": "util-linux"}


def _install_hint(program: str) -> str:
    package = _PACKAGES.get(Path(program).name)
    return f"sudo apt-get install {package}" if package else "check the path and that the file is executable"


def _hint(result: Result) -> str:
    if result.exit_code < 0:
        return f"it was ended by signal {-result.exit_code} ({_signal_name(-result.exit_code)}); see who sent it"
    if "ermission denied" in result.stderr or "not permitted" in result.stderr:
        return "run as root, or on the lab, where no root is needed"
    return "run the command by hand on that host"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def tail_of(file: IO[bytes] | None, lines: int) -> str:
    """The last lines of a file that another process still writes; its offset is not touched."""
    if file is None or file.closed:
        return ""
    size = os.fstat(file.fileno()).st_size
    return last_lines(os.pread(file.fileno(), 65536, max(0, size - 65536)).decode(errors="replace"), lines)


def located(argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """argv with its program looked up on `env`'s PATH, as the host would, not on ours."""
    if not argv:
        raise CommandError("an empty command was given", "give a program and its arguments")
    return [shutil.which(argv[0], path=env["PATH"]) or argv[0], *argv[1:]]


def checked(host: str, result: Result, check: bool) -> Result:
    if check and result.exit_code != 0:
        raise command_error(host, result)
    return result


def copy_file(host: str, source: str, target: str) -> None:
    """Copies content and mode; the target appears whole or not at all."""
    part = Path(f"{target}.part-{os.getpid()}")
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, part)
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise CommandError(f"{host}: cannot copy {source} to {target}: {error.strerror}", "check both paths") from error


def read_file(host: str, path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError as error:
        raise CommandError(f"{host}: cannot read {path}: {error.strerror}", "check the path") from error
