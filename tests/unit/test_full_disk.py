"""A disk that is full: the error names the path and what to do, and nothing is left half written.

The disk is a real one, of some pages, in a mount namespace of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bad_runs import LOG, good

from harness.errors import UsageError
from harness.files.writing import write_whole

INSIDE = ["unshare", "--mount", "--map-root-user", "--user"] if os.geteuid() else ["unshare", "--mount"]
MOUNT = 'mount -t tmpfs -o size=64k,nr_inodes=200 disk "$1" || exit 77; shift; exec "$@"'
NO_SPACE = "no space is left on the disk"


def _there_are_namespaces() -> bool:
    if shutil.which("unshare") is None:
        return False
    return (
        subprocess.run([*INSIDE, "mount", "-t", "tmpfs", "x", "/mnt"], capture_output=True, timeout=60).returncode == 0
    )


pytestmark = pytest.mark.skipif(not _there_are_namespaces(), reason="no mount namespaces (util-linux, user namespaces)")
FILL = """
import os, sys
def fill(folder):
    with open(os.path.join(folder, "filler"), "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
"""


def _on_a_full_disk(disk: Path, script: str, *words: str, env: dict[str, str] | None = None) -> str:
    """What a Python script prints that has the disk's folder as its first word, and `fill`."""
    argv = [*INSIDE, "sh", "-c", MOUNT, "sh", str(disk), sys.executable, "-c", FILL + script, str(disk), *words]
    found = subprocess.run(argv, capture_output=True, text=True, timeout=60, env={**os.environ, **(env or {})})
    assert "Traceback" not in found.stderr, found.stderr
    assert found.returncode == 0, found.stderr
    return found.stdout


CLI = """
from harness.cli import run_cli
import contextlib, io
def call(*words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_cli(list(words))
    return code, out.getvalue(), err.getvalue()
"""


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    said = _on_a_full_disk(
        tmp_path,
        """
from pathlib import Path
from harness.errors import InfraError
from harness.files.writing import write_whole
disk = Path(sys.argv[1])
write_whole(disk / "a.json", "old")
fill(disk)
for name in ("a.json", "new.json"):
    try:
        write_whole(disk / name, "y" * 9999)
    except InfraError as error:
        print(error.message)
print(sorted(os.listdir(disk)), (disk / "a.json").read_text())
""",
    ).splitlines()
    assert said[:2] == [f"cannot write {tmp_path / name}: {NO_SPACE}" for name in ("a.json", "new.json")]
    assert said[2] == "['a.json', 'filler'] old"


def test_a_store_can_be_looked_at_and_its_index_is_made_in_memory(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    kept = good(tmp_path / "kept", "20260101T000000Z-a")
    said = _on_a_full_disk(
        disk,
        CLI
        + """
import shutil
shutil.copytree(sys.argv[2], os.path.join(sys.argv[1], os.path.basename(sys.argv[2])))
fill(sys.argv[1])
print(call("runs", "list", "--store", sys.argv[1]))
print(call("runs", "tag", "2026", "x", "--store", sys.argv[1]))
""",
        str(kept),
    )
    listed, tagged = said.splitlines()
    assert listed.startswith("(0, ") and "20260101T000000Z-a" in listed
    assert tagged.startswith("(3, ") and NO_SPACE in tagged and str(disk) in tagged


def test_an_import_leaves_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    log = tmp_path / "log.txt"
    log.write_text(LOG + "# filling\n" * 20_000)
    said = _on_a_full_disk(
        disk,
        CLI + 'print(call("runs", "import", sys.argv[2], "--name", "x", "--store", sys.argv[1] + "/runs"))\n'
        'print(os.listdir(sys.argv[1] + "/runs"))\n',
        str(log),
    )
    answer, left = said.splitlines()
    assert answer.startswith("(3, ") and NO_SPACE in answer and str(disk) in answer
    assert left == "[]"


def test_the_gate_leaves_no_empty_judgement(tmp_path: Path) -> None:
    disk, store = tmp_path / "disk", tmp_path / "runs"
    disk.mkdir()
    for day in range(1, 5):
        good(store, f"2026010{day}T000000Z-rail_down")
    policy = tmp_path / "policy.yaml"
    series = [{"experiment": "rail_down", "arm": "migrate", "figure": "healthy_ms"}]
    policy.write_text(json.dumps({"schema": 1, "series": series}))
    said = _on_a_full_disk(
        disk,
        CLI
        + """
fill(sys.argv[1])
at = ("--policy", sys.argv[2], "--store", sys.argv[3])
print(call("ci", "gate", "--history", *at, "--out", sys.argv[1] + "/g.json"))
print(os.listdir(sys.argv[1]))
""",
        str(policy),
        str(store),
    )
    answer, left = said.splitlines()
    assert answer.startswith("(3, ") and f"cannot write {disk / 'g.json'}: {NO_SPACE}" in answer
    assert left == "['filler']"


def test_a_run_that_cannot_begin_leaves_no_directory_and_a_journal_no_half_line(tmp_path: Path) -> None:
    said = _on_a_full_disk(
        tmp_path,
        """
from pathlib import Path
from harness.files import rundir
from chaos.record.journal import Journal, read
from harness.errors import InfraError
disk = Path(sys.argv[1])
run = rundir.create(disk, "x")
with Journal(run.journal) as journal:
    journal.write("log", message="first")
    fill(disk)
    try:
        for _ in range(1000):
            journal.write("log", message="x" * 300)
    except InfraError as error:
        print(error.message.removeprefix(f"cannot write {run.journal}: "))
    (disk / "filler").unlink()
    journal.write("log", message="last")
lines = list(read(run.journal))
print(lines[-1]["message"], len(set(len(line["message"]) for line in lines)))
""",
    )
    assert said.splitlines() == [NO_SPACE, "last 3"]


def test_a_lab_with_a_full_cache_folder_says_which(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path), "XDG_RUNTIME_DIR": ""}
    said = _on_a_full_disk(
        tmp_path,
        CLI
        + """
os.makedirs(sys.argv[1] + "/r2cc/labs")
fill(sys.argv[1])
for number in range(200):
    try:
        open(f"{sys.argv[1]}/{number}", "x").close()
    except OSError:
        break
from harness.errors import InfraError
from harness.lab import state
try:
    state.claim("mine").write({"name": "mine"})
except InfraError as error:
    print(error.message)
print(sorted(os.listdir(sys.argv[1] + "/r2cc/labs")))
""",
        env=env,
    )
    assert said.splitlines()[0].startswith(f"cannot write {tmp_path / 'r2cc' / 'labs' / 'mine'}")
    assert NO_SPACE in said


def test_what_is_no_file_is_written_to_as_it_is(tmp_path: Path) -> None:
    assert write_whole(Path("/dev/null"), "x") == Path("/dev/null")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(UsageError, match=r"cannot write .*name a place that you may write|cannot write"):
        write_whole(Path("/proc/nothing/here.json"), "x")


def test_a_run_whose_first_files_cannot_be_written_is_not_there(tmp_path: Path) -> None:
    said = _on_a_full_disk(
        tmp_path,
        """
from pathlib import Path
import yaml
from chaos.record import live
from harness.files import rundir
from chaos.run import runner
from chaos.experiment.file import loads
from harness.errors import InfraError
disk = Path(sys.argv[1])
text = Path(sys.argv[2]).read_text()
experiment = loads(text, Path(sys.argv[2]))
run = rundir.create(disk, "x")
fill(disk)
request = runner.Request(["stock"], None, {"build_id": "b"}, lambda: None)
try:
    runner.run(experiment, request, run, None)
except InfraError as error:
    print(error.message)
print(os.listdir(disk))
""",
        str(Path(__file__).parents[2] / "experiments" / "nic_down.yaml"),
    )
    message, left = said.splitlines()
    assert message.endswith(f"experiment.yaml: {NO_SPACE}")
    assert left == "['filler']"


def test_a_simulation_that_cannot_begin_leaves_no_directory(tmp_path: Path) -> None:
    said = _on_a_full_disk(
        tmp_path,
        """
from pathlib import Path
from harness.files import rundir
from chaos.simulate import run
from chaos.simulate.run.experiment import load
from chaos.simulate.run.sweep import Sweep
from harness.errors import InfraError
run.code_id = lambda: "code"  # of libraries that may not have been built
disk = Path(sys.argv[1])
sweep = Sweep(load(Path(sys.argv[2])), rundir.create(disk, "x").path)
fill(disk)
try:
    sweep.prepare(resume=False)
except InfraError as error:
    print(error.message)
print(os.listdir(disk))
""",
        str(next((Path(__file__).parents[2] / "experiments" / "sim").glob("*.yaml"))),
    )
    message, left = said.splitlines()
    assert message.endswith(f"sweep.json: {NO_SPACE}")
    assert left == "['filler']"
