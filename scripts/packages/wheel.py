"""`make wheel`: the Python packages, experiments and stripped libraries as one wheel, in dist/.

It has no libnccl. auditwheel fails where a library needs a newer glibc, or another library, than the name promises.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import stage

from harness.repo import Layout

FLOOR = "manylinux_2_31"
"""glibc 2.31: Debian 11, Ubuntu 20.04, RHEL 9 and newer (r2cc_patches/release)."""


def main() -> None:
    layout = Layout(stage.ROOT)
    build = (layout.for_cpu(sys.argv[1]) if len(sys.argv) > 1 else layout).net
    platform = f"{FLOOR}_{stage.machine(build / 'release' / 'libr2cc_net.so')}"
    with tempfile.TemporaryDirectory(prefix="r2cc-wheel-") as name:
        folder = Path(name)
        stage.python(folder / "source")
        stage.native(build, folder / "source" / "r2cc" / "native")
        words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", name]
        run([sys.executable, "-m", "pip", *words, str(folder / "source")], R2CC_WHEEL_PLATFORM=platform)
        [made] = folder.glob("*.whl")
        check(made, platform)
        dist = stage.ROOT / "dist"
        dist.mkdir(exist_ok=True)
        (dist / f".{made.name}").write_bytes(made.read_bytes())
        (dist / f".{made.name}").replace(dist / made.name)
        print(dist / made.name)


def check(wheel: Path, platform: str) -> None:
    """That it runs on every machine of this platform. SystemExit with what auditwheel says, if not."""
    said = run([sys.executable, "-m", "auditwheel", "show", "--allow-pure-python-wheel", str(wheel)])
    found = re.search(r'following platform tag:\s+"manylinux_(\d+)_(\d+)_(\w+)"', said)
    wanted = re.fullmatch(r"manylinux_(\d+)_(\d+)_(\w+)", platform)
    if found is None or wanted is None or found[3] != wanted[3] or glibc(found) > glibc(wanted):
        raise SystemExit(f"{wheel.name} needs more than {platform} has:\n{said}")


def glibc(found: re.Match[str]) -> tuple[int, int]:
    return int(found[1]), int(found[2])


def run(command: list[str], **env: str) -> str:
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[:4])} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
