"""Finds CUDA's headers: a toolkit's if one is installed, else the locked wheels', kept in the cache."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.errors import BuildError, SourceError
from harness.fork.network import run_bounded
from harness.progress import Progress
from harness.repo import Layout

NEEDED = ("cuda_runtime.h", "cuda_fp16.h", "crt/host_config.h")
WHEELS_TIMEOUT_S = 240.0


def cuda_include(layout: Layout, progress: Progress) -> Path:
    """A folder with CUDA's headers; fetches the wheels, once, if no toolkit has them. Raises BuildError."""
    return toolkit_include(os.environ) or _from_wheels(layout, progress)


def toolkit_include(env: Mapping[str, str], prefix: Path = Path("/usr/local")) -> Path | None:
    """An installed toolkit's headers: where CUDA_HOME or CUDA_PATH say, else the newest under /usr/local."""
    return next((folder for folder in _candidates(env, prefix) if is_complete(folder)), None)


def _candidates(env: Mapping[str, str], prefix: Path) -> Iterator[Path]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if env.get(name):
            yield Path(env[name]) / "include"
    yield prefix / "cuda" / "include"
    yield from (root / "include" for root in sorted(prefix.glob("cuda-*"), key=_version, reverse=True))


def _version(root: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in root.name.removeprefix("cuda-").split(".") if part.isdigit())


def is_complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in NEEDED)


def _from_wheels(layout: Layout, progress: Progress) -> Path:
    target = layout.cache / "cuda-headers"
    found = _find(target)
    if found is not None:
        return found
    part = target.with_name(f"{target.name}.part-{os.getpid()}")
    try:
        with progress("fetching CUDA's headers (three wheels, 6 MB)"):
            run_bounded(pip_command(part, layout.cuda_lock), timeout_s=WHEELS_TIMEOUT_S)
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
    except SourceError as error:
        hint = "install a CUDA 13 toolkit and set CUDA_HOME, or let pip reach a package index"
        message = f"no CUDA headers: no toolkit here, and the wheels cannot be had\n{error.message}"
        raise BuildError(message, hint) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    found = _find(target)
    if found is None:
        raise BuildError(f"the wheels of {layout.cuda_lock.name} hold no complete CUDA headers", "report this")
    return found


def pip_command(target: Path, lock: Path) -> list[str]:
    """Only what the lock's hashes allow; nothing of it is put into our own environment."""
    words = "-m pip install --quiet --no-deps --require-hashes --only-binary=:all: --disable-pip-version-check --target"
    return [sys.executable, *words.split(), str(target), "-r", str(lock)]


def _find(target: Path) -> Path | None:
    """The wheels put their headers into one folder named after CUDA's major version."""
    return next((folder for folder in sorted(target.glob("nvidia/cu*/include")) if is_complete(folder)), None)
