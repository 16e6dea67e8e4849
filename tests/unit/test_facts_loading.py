"""What the loader of this machine says of NCCLs and net plugins that the test has made."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from doctor_double import patient, seen

from harness.doctor.model import ERROR, NOTE, WARNING, Severity
from harness.facts import catalogue, scripts
from harness.facts.environment import TOOLKIT
from harness.facts.kernel import Mapped, settings
from harness.facts.loading import LOADING, OF_PROCESS, Loading, Setting, loading


def _library(path: Path, *options: str, name: str = "r2cc_test_only") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text(f"int {name} = 1;\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, source, *options], check=True)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site-packages with a torch whose NCCL is a wheel, somebody's plugin, and both libraries of R2CC."""
    root = tmp_path_factory.mktemp("loading")
    wheel = _library(root / "site/nvidia/nccl/lib/libnccl.so.2", "-Wl,-soname,libnccl.so.2")
    run_path = "-Wl,--no-as-needed,-rpath,$ORIGIN/../../nvidia/nccl/lib"
    _library(root / "site/torch/lib/libtorch_cuda.so", run_path, f"-L{wheel.parent}", "-l:libnccl.so.2")
    (root / "site/torch/__init__.py").write_text("raise SystemExit('torch was imported')\n")
    _library(root / "hpcx/libnccl-net.so")
    _library(root / "ours/libr2cc_net.so", name="r2ccBuildId")
    _library(root / "ours/libnccl.so.2", "-Wl,-soname,libnccl.so.2", name="r2ccBuildId")
    lacking = _library(root / "lacking/libmissing.so", "-Wl,-soname,libmissing.so")
    _library(root / "lacking/libnccl-net-lacking.so", "-Wl,--no-as-needed", f"-L{lacking.parent}", "-lmissing")
    lacking.unlink()
    spaced = root / "with space # and & more"
    _library(spaced / "torch/lib/libtorch_cuda.so", run_path, f"-L{wheel.parent}", "-l:libnccl.so.2")
    _library(spaced / "nvidia/nccl/lib/libnccl.so.2", "-Wl,-soname,libnccl.so.2")
    _library(spaced / "libr2cc_net.so", name="r2ccBuildId")
    _library(root / "linked/torch/lib/libtorch_cuda.so")
    for torch in (spaced / "torch", root / "linked/torch"):
        (torch / "__init__.py").touch()
    (root / "home").mkdir()
    (root / "bin").mkdir()
    entry = f'[ "$*" = "passwd {os.getuid()}" ] && echo "me:x:{os.getuid()}:7:I, myself:{root}/home:/bin/sh"'
    (root / "bin/getent").write_text(f"#!/bin/sh\n{entry}\n")
    (root / "bin/getent").chmod(0o755)
    return root


def _login(root: Path) -> dict[str, str]:
    """Its home is where the user's entry says; $HOME is elsewhere."""
    return {"PATH": f"{root}/bin:{os.environ['PATH']}", "HOME": "/nowhere", "PYTHONPATH": str(root / "site")}


def _asked(root: Path, **more: str) -> Loading:
    env = _login(root) | {name: value.replace("~", str(root)) for name, value in more.items()}
    return loading(subprocess.run(LOADING, env=env, cwd=root, text=True, capture_output=True, check=True).stdout)


MODE = {"R2CC_MODE": "balance"}
HPCX = {"LD_LIBRARY_PATH": "~/hpcx"}
PLUGIN = {"NCCL_NET_PLUGIN": "~/ours/libr2cc_net.so"}
FORK = {"LD_PRELOAD": "~/ours/libnccl.so.2"}
NONE = {"NCCL_NET_PLUGIN": "none"}
SPACED = {"PYTHONPATH": "~/with space # and & more"}
LINKED = {"PYTHONPATH": "~/linked"}
WHEEL = ("site/nvidia/nccl/lib/libnccl.so.2", "torch's run path, a wheel")
PRELOADED = ("ours/libnccl.so.2", "LD_PRELOAD")


@pytest.mark.parametrize(
    ("env", "nccl", "net", "in_path"),
    [
        ({}, WHEEL, "", False),
        (HPCX, WHEEL, "hpcx/libnccl-net.so", False),
        (PLUGIN, WHEEL, "ours/libr2cc_net.so", True),
        (PLUGIN | HPCX, WHEEL, "ours/libr2cc_net.so", True),
        (FORK, PRELOADED, "", True),
        (FORK | HPCX, PRELOADED, "hpcx/libnccl-net.so", False),
        (FORK | HPCX | NONE, PRELOADED, "", True),
        ({"LD_LIBRARY_PATH": "~/ours"}, ("ours/libnccl.so.2", "LD_LIBRARY_PATH"), "", True),
        ({"NCCL_NET_PLUGIN": "nowhere,~/hpcx/libnccl-net.so"}, WHEEL, "hpcx/libnccl-net.so", False),
        ({"NCCL_NET_PLUGIN": "ours/libr2cc_net.so"}, WHEEL, "ours/libr2cc_net.so", True),
        ({"LD_PRELOAD": "ours/libnccl.so.2"}, PRELOADED, "", True),
        ({"LD_PRELOAD": "~/hpcx/libnccl-net.so:~/ours/libnccl.so.2"}, PRELOADED, "", True),
        ({"LD_PRELOAD": "~/hpcx/libnccl-net.so ~/ours/libnccl.so.2"}, PRELOADED, "", True),
        (HPCX | {"NCCL_NET_PLUGIN": ""}, WHEEL, "", False),
        (PLUGIN | {"LD_LIBRARY_PATH": "~/with space # and & more"}, WHEEL, "ours/libr2cc_net.so", True),
        (
            SPACED | {"NCCL_NET_PLUGIN": "~/with space # and & more/libr2cc_net.so"},
            ("with space # and & more/nvidia/nccl/lib/libnccl.so.2", "torch's run path, a wheel"),
            "with space # and & more/libr2cc_net.so",
            True,
        ),
        (LINKED, ("linked/torch/lib/libtorch_cuda.so", "its being linked into torch"), "", False),
        (LINKED | FORK, PRELOADED, "", True),
    ],
)
def test_what_would_be_loaded(
    made: Path, env: Mapping[str, str], nccl: tuple[str, str], net: str, in_path: bool
) -> None:
    found = _asked(made, **env)
    assert found.net == (str(made / net) if net else "")
    assert found.in_path is in_path
    assert (found.nccl, found.where()) == (str(made / nccl[0]), nccl[1])


def test_a_file_of_the_user_counts_before_the_machine_s(made: Path) -> None:
    conf = made / "home/.nccl.conf"
    conf.write_text(f"NCCL_NET_PLUGIN={made}/ours/libr2cc_net.so\nNCCL_DEBUG=WARN\n")
    try:
        found = _asked(made)
        assert found.in_path
        assert found.setting("NCCL_NET_PLUGIN") == Setting("NCCL_NET_PLUGIN", f"{made}/ours/libr2cc_net.so", str(conf))
        assert not _asked(made, **NONE).in_path  # the environment counts first
        assert not _asked(made, HOME="~/home", NCCL_CONF_FILE="/nowhere").in_path
    finally:
        conf.unlink()


def test_the_settings_of_a_login_are_those_that_count(made: Path) -> None:
    conf = made / "home/.nccl.conf"
    conf.write_text("R2CC_MODE=2\nNCCL_DEBUG=INFO\n NCCL_ALGO=Ring\n#NCCL_PROTO=LL\nNCCL_API_KEY=x")
    env = _login(made) | {"NCCL_DEBUG": "WARN", "R2CC_TOKEN": "x"}
    try:
        said = subprocess.run(scripts.SETTINGS, env=env, text=True, capture_output=True, check=True).stdout
    finally:
        conf.unlink()
    found = settings(said)
    assert (found["NCCL_DEBUG"], found["R2CC_MODE"]) == ("WARN", "2")
    assert not {"NCCL_ALGO", "#NCCL_PROTO", "NCCL_API_KEY", "R2CC_TOKEN"} & found.keys()


@pytest.mark.parametrize(
    ("lines", "value", "in_path"),
    [
        ("# NCCL_NET_PLUGIN=none\nNCCL_NET_PLUGIN={0}", "{0}", True),
        ("NCCL_NET_PLUGIN={0}\nNCCL_NET_PLUGIN=none\n", "{0}", True),
        ("NCCL_NET_PLUGIN={0}\r\n", r"{0}\r", False),
        ("NCCL_NET_PLUGIN={0} # ours\n", "{0} # ours", False),
        ("  NCCL_NET_PLUGIN={0}\nexport NCCL_NET_PLUGIN={0}\nNCCL_NET_PLUGIN = {0}\n", None, False),
    ],
)
def test_the_file_is_read_as_nccl_reads_it(made: Path, lines: str, value: str | None, in_path: bool) -> None:
    """Nothing is cut off a line, and the first that sets a variable counts."""
    ours = str(made / "ours/libr2cc_net.so")
    conf = made / "a folder # of confs/nccl.conf"
    conf.parent.mkdir(exist_ok=True)
    conf.write_bytes(lines.format(ours).encode())
    found = _asked(made, NCCL_CONF_FILE=str(conf))
    chosen = found.setting("NCCL_NET_PLUGIN")
    assert (chosen and chosen.value) == (value and value.format(ours))
    assert found.in_path is in_path
    assert bool(found.lost) is not in_path


def test_a_plugin_that_cannot_be_loaded_is_named_with_the_reason(made: Path) -> None:
    env = {"LD_LIBRARY_PATH": "~/lacking", "NCCL_NET_PLUGIN": "lacking,nowhere"}
    found = _asked(made, **env)
    assert found.lost == (
        ("lacking", "needs libmissing.so, which the loader does not find"),
        ("nowhere", "is not found"),
    )
    _library(made / "other/libmissing.so", "-Wl,-soname,libmissing.so")
    assert _asked(made, **env | {"LD_PRELOAD": "~/other/libmissing.so"}).net.endswith("libnccl-net-lacking.so")
    wanted = Setting("NCCL_NET_PLUGIN", "/o/libr2cc_net.so ", "/etc/nccl.conf")
    lost = Loading((wanted,), "/opt/libnccl.so.2", "libnccl.so.2", lost=((wanted.value, "is not found"),))
    ((_, _, _, says),) = seen("nccl-path", patient(facts={catalogue.LOADING: lost}))
    assert says.endswith("; '/o/libr2cc_net.so ' is not found")
    ((severity, _, _, says),) = seen("nccl-path", patient(facts={catalogue.LOADING: replace(lost, nccl="")}))
    assert (severity, "NCCL is whatever the program brings" in says) == (ERROR, True)


@pytest.mark.parametrize(
    ("inner", "severities", "words"),
    [
        ("~/other net/libnccl-net-fenced.so", [NOTE], "; of R2CC_INNER_PLUGIN it takes "),
        ("other net/libnccl-net-plain.so", [ERROR], "libnccl-net-plain.so, which has no r2ccFence_v1, so it is passed"),
        ("libnccl-net.so", [WARNING, NOTE], "libnccl-net.so has no ncclNetPlugin_v11: R2CC uses NCCL's own nets"),
        ("~/other net/libr2cc_net.so", [WARNING, NOTE], "libr2cc_net.so is R2CC itself: R2CC uses NCCL's own nets"),
        ("nowhere.so", [WARNING, NOTE], "R2CC_INNER_PLUGIN: nowhere.so is not found: R2CC uses NCCL's own nets"),
    ],
)
def test_what_r2cc_s_plugin_finds_of_another_one(
    made: Path, inner: str, severities: list[Severity], words: str
) -> None:
    for name, symbols in (("plain", ""), ("fenced", "int r2ccFence_v1 = 1;")):
        _library(made / f"other net/libnccl-net-{name}.so", name=f"ncclNetPlugin_v11 = 1; {symbols} int other")
    says = '"R2CC_INNER_PLUGIN="; int ncclNetPlugin_v11 = 1; int r2ccBuildId'
    _library(made / "other net/libr2cc_net.so", name=f"x; const char *says = {says}")
    found = _asked(made, **PLUGIN, **HPCX, R2CC_INNER_PLUGIN=inner)
    told = seen("nccl-path", patient(facts={catalogue.LOADING: found}))
    assert [severity for severity, *_ in told] == severities
    assert words in told[0][3]
    alone = seen("nccl-path", patient(facts={catalogue.LOADING: replace(found, nccl="")}))
    assert [severity for severity, *_ in alone] == severities, "the program brings its NCCL"
    conf = made / "home/.nccl.conf"
    conf.write_text(f"R2CC_INNER_PLUGIN={inner.replace('~', str(made))}\n")
    try:
        assert _asked(made, **PLUGIN, **HPCX).inner == found.inner
    finally:
        conf.unlink()


def test_no_program_is_run_with_a_plugin_where_the_loader_does_not_list(made: Path, tmp_path: Path) -> None:
    """As musl's does not, nor a program without a loader."""
    for name in ("sed", "grep", "head", "tr", "readlink"):
        (tmp_path / name).symlink_to(next(p for d in os.environ["PATH"].split(":") if (p := Path(d) / name).exists()))
    source = tmp_path / "static.c"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        f'int main() {{ if (getenv("LD_PRELOAD")) fopen("{tmp_path}/ran", "w"); }}\n'
    )
    for name in ("env", "sh", "python3"):
        subprocess.run(["cc", "-static", "-o", tmp_path / name, source], check=True)
    argv = ("/bin/sh", *LOADING[1:])
    env = {"PATH": str(tmp_path), "HOME": str(made / "home"), "NCCL_NET_PLUGIN": str(made / "ours/libr2cc_net.so")}
    run = subprocess.run(argv, env=env, text=True, capture_output=True, check=False)
    assert not (tmp_path / "ran").exists()
    assert (run.returncode, run.stderr) == (1, "no loader of glibc here, which NCCL needs\n")


def test_a_login_without_python_or_nccl_is_asked_in_vain(made: Path) -> None:
    tools = made / "tools"
    tools.mkdir()
    (tools / "getent").symlink_to(made / "bin/getent")
    for name in ("sh", "env", "id", "sed", "grep", "head", "tr", "readlink"):
        (tools / name).symlink_to(next(p for d in os.environ["PATH"].split(":") if (p := Path(d) / name).exists()))
    found = _asked(made, PATH=str(tools))
    assert (found.net, found.asked_by in ("", "libnccl.so.2")) == ("", True)


@pytest.mark.parametrize("plugin", [True, False])
def test_what_a_process_has_loaded(made: Path, plugin: bool) -> None:
    libraries = [made / "site/nvidia/nccl/lib/libnccl.so.2", *([made / "ours/libr2cc_net.so"] if plugin else [])]
    code = f"import ctypes\nfor p in {[str(p) for p in libraries]}: ctypes.CDLL(p)\nprint('up', flush=True)\ninput()"
    env = {"PATH": os.environ["PATH"], **MODE}
    with subprocess.Popen(
        ["python3", "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        argv = scripts.script(OF_PROCESS, str(process.pid))
        found = loading(subprocess.run(argv, text=True, capture_output=True, check=True).stdout)
        process.communicate("\n")
    assert found.wanted == Setting("R2CC_MODE", "balance", "the environment")
    assert found.in_path is plugin


def test_a_library_that_was_replaced_is_known_by_what_is_mapped(made: Path, tmp_path: Path) -> None:
    library = tmp_path / "with space/libnccl.so.2"
    library.parent.mkdir()
    shutil.copy(made / "ours/libnccl.so.2", library)
    code = f"import ctypes\nctypes.CDLL({str(library)!r})\nprint('up', flush=True)\ninput()"
    with subprocess.Popen(["python3", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        library.unlink()
        argv = scripts.script(OF_PROCESS, str(process.pid))
        found = loading(subprocess.run(argv, text=True, capture_output=True, check=True).stdout)
        process.communicate("\n")
    assert found.nccl == str(library)
    if os.geteuid() == 0:  # others may not open what another process has mapped
        assert found.in_path


@contextmanager
def _running(env: Mapping[str, str], *before: str, cwd: Path | None = None) -> Iterator[int]:
    """A process that does nothing, started by `before`; its number."""
    argv = [*before, "python3", "-c", "print('up', flush=True)\ninput()"]
    env = {"PATH": os.environ["PATH"], **env}
    with subprocess.Popen(argv, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "up\n":
            pytest.skip(f"{before[0] if before else 'python3'} cannot start a process here")
        try:
            yield process.pid
        finally:
            process.communicate("\n")


def _of(pid: int) -> Loading:
    argv = scripts.script(OF_PROCESS, str(pid))
    return loading(subprocess.run(argv, text=True, capture_output=True, check=True).stdout)


@pytest.mark.parametrize("relative", [False, True])
def test_a_process_reads_the_file_that_its_environment_names(tmp_path: Path, relative: bool) -> None:
    conf = tmp_path / "a file.conf"
    conf.write_text("# R2CC_MODE=3\nNCCL_NET_PLUGIN=/opt/libr2cc_net.so\nR2CC_MODE=2\n R2CC_HOLD_MS=1\n")
    name = conf.name if relative else str(conf)
    with _running({"NCCL_CONF_FILE": name, "R2CC_MODE": "1"}, cwd=tmp_path) as pid:
        found = _of(pid)
    plugin = Setting("NCCL_NET_PLUGIN", "/opt/libr2cc_net.so", name)
    assert found.setting("NCCL_NET_PLUGIN") == plugin
    assert found.setting("R2CC_MODE") == Setting("R2CC_MODE", "1", "the environment")
    assert found.setting("R2CC_HOLD_MS") is None
    assert set(found.counting) == {plugin, Setting("R2CC_MODE", "1", "the environment")}


def test_a_process_reads_the_files_of_its_own_root(tmp_path: Path) -> None:
    """In a container: another /etc, and another home than $HOME says. NCCL asks the user's entry."""
    home, etc = tmp_path / "home", tmp_path / "etc"
    home.mkdir()
    etc.mkdir()
    (home / ".nccl.conf").write_text("R2CC_MODE=2\n")
    (etc / "passwd").write_text(f"root:x:0:0:root:{home}:/bin/sh\n")
    (etc / "nccl.conf").write_text("R2CC_MODE=3\nNCCL_NET_PLUGIN=/opt/libr2cc_net.so\r\n")
    moved = f'mount --bind "{etc}" /etc && exec "$@"'
    with _running({"HOME": "/nowhere"}, "unshare", "-rm", "sh", "-c", moved, "sh") as pid:
        found = _of(pid)
    assert found.setting("R2CC_MODE") == Setting("R2CC_MODE", "2", str(home / ".nccl.conf"))
    assert found.setting("NCCL_NET_PLUGIN") == Setting("NCCL_NET_PLUGIN", "/opt/libr2cc_net.so\\r", "/etc/nccl.conf")


def test_each_setting_of_a_process_is_shown_with_where_it_is_set() -> None:
    settings = (
        Setting("R2CC_MODE", "1", "the environment"),
        Setting("NCCL_NET_PLUGIN", "none", "/root/.nccl.conf"),
        Setting("NCCL_NET_PLUGIN", "/opt/libr2cc_net.so", "/etc/nccl.conf"),
    )
    copies = (Mapped("/opt/libnccl.so.2", False),)
    known = {catalogue.MAPPED: copies, catalogue.LOADED: Loading(settings, "/opt/libnccl.so.2", "mapped")}
    told = [each[3] for each in seen("nccl-mapped", patient(facts=known, pid=4711))]
    assert "set when it started: R2CC_MODE=1 (in the environment), NCCL_NET_PLUGIN=none (in /root/.nccl.conf)" in told
    assert any("R2CC_MODE=1 (in the environment) asks for R2CC, but it is not in the path" in text for text in told)


def test_what_does_not_count_asks_for_nothing() -> None:
    """The environment takes another plugin than the file."""
    settings = (
        Setting("NCCL_NET_PLUGIN", "none", "the environment"),
        Setting("NCCL_NET_PLUGIN", "/opt/libr2cc_net.so", "/etc/nccl.conf"),
    )
    assert Loading(settings).wanted is None


def test_what_only_the_tool_reads_asks_for_nothing() -> None:
    """All of the page's variables of `r2cc`, but for those that it sets for ranks itself."""
    page = (Path(__file__).parents[2] / "docs/reference/environment.md").read_text()
    rows = [row for row in page.split("## Of `r2cc`")[1].split("\n## ")[0].splitlines() if "set by " not in row]
    names = set(re.findall(r"`(R2CC_[A-Z_]+)`", "\n".join(row.split("|")[1] for row in rows if row.startswith("| `"))))
    assert "R2CC_NCCL_SOURCE" in names
    assert names == TOOLKIT - {"R2CC_CI_STARTED"}
    assert Loading(tuple(Setting(name, "x", "the environment") for name in names)).wanted is None
    assert settings("\n".join(f"{name}=x" for name in ["R2CC_MODE", *names])) == {"R2CC_MODE": "x"}


THEIRS = Loading(nccl="/opt/libnccl.so.2", asked_by="libnccl.so.2")


@pytest.mark.parametrize(
    ("found", "severities", "says"),
    [
        (Loading(), [], ""),
        (THEIRS, [], ""),
        (Loading(nets=(("libnccl-net.so", "/hpcx/libnccl-net.so"),)), [NOTE], "nobody asked for it"),
        (Loading((Setting("R2CC_MODE", "balance", "/etc/nccl.conf"),)), [WARNING], "finds no libnccl.so.2"),
        (
            Loading((Setting("R2CC_MODE", "balance", "/etc/nccl.conf"),), "/opt/libnccl.so.2", "libnccl.so.2"),
            [ERROR],
            "R2CC_MODE=balance (in /etc/nccl.conf) asks for R2CC, but it is not in the path: NCCL is /opt/libnccl.so.2",
        ),
        (Loading(nccl="/o/libnccl.so.2", ours=frozenset({"/o/libnccl.so.2"})), [NOTE], "R2CC is in the path"),
    ],
)
def test_what_is_made_of_it(found: Loading, severities: list[Severity], says: str) -> None:
    told = seen("nccl-path", patient(facts={catalogue.LOADING: found}))
    assert [each[0] for each in told] == severities
    assert says in "".join(each[3] for each in told)
