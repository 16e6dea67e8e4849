"""What the loader of this machine says of NCCLs and net plugins that the test has made."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from doctor_double import patient, seen

from harness.doctor.model import ERROR, NOTE, WARNING, Severity
from harness.facts import catalogue, scripts
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
    (root / "home").mkdir()
    return root


def _asked(root: Path, **more: str) -> Loading:
    env = {"PATH": os.environ["PATH"], "HOME": str(root / "home"), "PYTHONPATH": str(root / "site")}
    env |= {name: value.replace("~", str(root)) for name, value in more.items()}
    return loading(subprocess.run(LOADING, env=env, cwd=root, text=True, capture_output=True, check=True).stdout)


MODE = {"R2CC_MODE": "balance"}
HPCX = {"LD_LIBRARY_PATH": "~/hpcx"}
PLUGIN = {"NCCL_NET_PLUGIN": "~/ours/libr2cc_net.so"}
FORK = {"LD_PRELOAD": "~/ours/libnccl.so.2"}
NONE = {"NCCL_NET_PLUGIN": "none"}
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
    finally:
        conf.unlink()


def test_a_login_without_python_or_nccl_is_asked_in_vain(made: Path) -> None:
    tools = made / "tools"
    tools.mkdir()
    for name in ("sh", "env", "sed", "grep", "head", "tr", "readlink"):
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
