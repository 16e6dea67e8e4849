"""What the tests of packages share: what they are made of, and how commands are run away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.build import build_net, run_target
from harness.progress import silent

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "scripts" / "packages"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
HOLDS = """\
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)
print("mapped", flush=True)
sys.stdin.readline()
print(all(library[f"ncclNetPlugin_v{version}"] for version in range(8, 13)))
"""
"""Has the library mapped while another is installed over it; then looks into it again."""


def run(*command: str | Path, cwd: Path, code: int = 0, timeout_s: float = 110) -> subprocess.CompletedProcess[str]:
    """Nothing of the caller's environment says where a checkout is, and PATH has no program of ours."""
    env = {name: os.environ[name] for name in ("HOME", "TMPDIR", "LANG") if name in os.environ} | {"PATH": PATH}
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, errors="replace", timeout=timeout_s
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def release() -> None:
    """Links what is shipped, if it is not there."""
    build_net(progress=silent)
    run_target("release", silent)


@contextmanager
def job_with(library: Path) -> Iterator[None]:
    """A process has the library mapped meanwhile; at the end it must have the same file still, and use it."""
    before = library.stat().st_ino
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(library)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as job:
        assert job.stdin is not None and job.stdout is not None
        try:
            assert job.stdout.readline() == "mapped\n"
            yield
            assert library.stat().st_ino != before, "the install wrote a new file"
            maps = Path(f"/proc/{job.pid}/maps").read_text().splitlines()
            mapped = [line for line in maps if library.name in line]
            assert mapped and all(line.split()[4] == str(before) for line in mapped)
            job.stdin.write("\n")
            job.stdin.flush()
            assert job.stdout.readline() == "True\n"
        finally:
            job.kill()
