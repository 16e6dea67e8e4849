"""What `r2cc --version` says: this package, the build of its net library, and the NCCLs that it is for."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.errors import R2ccError

TABLE = re.compile(r"ncclNetPlugin_v(\d+)")


def text() -> str:
    """Several lines; the first is for people and programs that want the version alone."""
    return "\n".join([f"r2cc, version {package()}", *_library()])


def package() -> str:
    try:
        return version("r2cc")
    except PackageNotFoundError:
        return "unknown"


def _library() -> list[str]:
    from harness.build.record import known
    from harness.repo import programs

    try:
        folder = programs().net
        build = known(folder)
        tables = tables_of(folder / "libr2cc_net.so")
    except (OSError, ValueError, R2ccError):
        return ["net library: not built (r2cc build net)"]
    return [
        f"net library: build {build.get('build_id')}, with the transports of NCCL {_nccl(build)}",
        f"net plugin tables: {', '.join(f'v{number}' for number in tables) or 'none'} (NCCL 2.19 and newer)",
    ]


def _nccl(build: dict[str, object]) -> str:
    inputs = build.get("inputs")
    return str(inputs.get("nccl_version", "unknown")) if isinstance(inputs, dict) else "unknown"


def tables_of(library: Path) -> list[int]:
    """The versions of NCCL's net table that it exports, lowest first. OSError or ValueError when it is no library."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    with library.open("rb") as file:
        try:
            section = ELFFile(file).get_section_by_name(".dynsym")
            names = [s.name for s in section.iter_symbols()] if isinstance(section, SymbolTableSection) else []
        except ELFError as error:
            raise ValueError(f"{library} is no library: {error}") from error
    return sorted(int(found[1]) for name in names if (found := TABLE.fullmatch(name)))
