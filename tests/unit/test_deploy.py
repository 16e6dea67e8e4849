"""Deploying: the scripts that run on hosts are run for real on this machine. What arrives, what failures leave."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.deploy import build as builds
from harness.deploy import deploy as work
from harness.deploy import needs, remote
from harness.deploy.build import Build
from harness.deploy.facts import HostFacts, too_full, unfit
from harness.errors import CommandError, InfraError, InputErrors, UsageError
from harness.hosts import Host, LocalHost, Process, Result
from harness.repo import Layout

pytestmark = pytest.mark.skipif(shutil.which("flock") is None, reason="no flock (util-linux)")
BIG = bytes(range(256)) * 400


@dataclass(frozen=True)
class Wrapped:
    """A host whose commands are changed, or that is lost at one of them."""

    name: str
    words: tuple[str, ...] = ()
    fails_at: int = -1
    calls: list[str] = field(default_factory=list)

    def run(self, argv: Sequence[str], **more: Any) -> Result:
        self._count(argv)
        return LocalHost(self.name).run([*self.words, *argv], **more)

    def spawn(self, argv: Sequence[str], **more: Any) -> Process:
        self._count(argv)
        return LocalHost(self.name).spawn([*self.words, *argv], **more)

    def _count(self, argv: Sequence[str]) -> None:
        self.calls.append(argv[3])
        if len(self.calls) - 1 == self.fails_at:
            raise CommandError(f"{self.name}: the connection was lost")

    def put(self, local: Path, remote: str) -> None: ...
    def get(self, remote: str, local: Path) -> None: ...
    def read_text(self, path: str) -> str:
        return ""


def _build(root: Path, build_id: str = "b1", **changed: bytes) -> Build:
    """A build of three files, two of which are the same."""
    files = {"bin/tool": b"#!/bin/sh\necho one\n", "lib/big.so": BIG, "lib/copy.so": BIG, **changed}
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    (root / "build.json").write_text(json.dumps({"build_id": build_id}))
    return builds.folder(root)


def _deploy(build: Build, prefix: Path, host: Host | None = None, **more: Any) -> Any:
    """Onto one host; its outcome."""
    found: Mapping[str, Host] = {"n1": host or LocalHost("n1")}
    planned = work.plan(found, {"n1": str(prefix)}, lambda _: build)
    return work.deploy(found, planned, "me", keep=more.pop("keep", 3), told=lambda _host, _what: None)["n1"]


def _whole(prefix: Path) -> str:
    """The current build's name; every file of it must be as it was sent."""
    current = prefix / "current"
    assert current.is_symlink()
    subprocess.run(["sha256sum", "-c", "--quiet", "manifest"], cwd=current, check=True, timeout=60)
    return current.resolve().name


def test_what_arrives(tmp_path: Path) -> None:
    build = _build(tmp_path / "b")
    done = _deploy(build, tmp_path / "p").value
    assert (done.was, done.now, done.sent_files) == ("", build.name, 3)
    assert _whole(tmp_path / "p") == build.name
    assert subprocess.check_output([tmp_path / "p" / "current" / "bin" / "tool"], text=True) == "one\n"
    assert (tmp_path / "p" / "current" / "lib" / "big.so").read_bytes() == BIG
    assert done.sent_bytes < len(BIG)  # once, and compressed
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == [
        "builds", "current", "deploy.lock", "objects", "switch.lock",
    ]  # fmt: skip


def test_only_what_changed_is_sent_and_there_is_a_way_back(tmp_path: Path) -> None:
    prefix = tmp_path / "p"
    first = _build(tmp_path / "b1")
    _deploy(first, prefix)
    assert _deploy(first, prefix).value.sent_files == 0
    running = (prefix / "current" / "bin" / "tool").open("rb")
    second = _build(tmp_path / "b2", "b2", **{"bin/tool": b"#!/bin/sh\necho two\n"})
    done = _deploy(second, prefix).value
    assert (done.was, done.sent_files) == (first.name, 2)  # the tool and build.json
    assert running.read() == b"#!/bin/sh\necho one\n"
    running.close()
    assert _whole(prefix) == second.name
    hosts, at = {"n1": LocalHost("n1")}, {"n1": str(prefix)}
    back = work.rollback(hosts, at, "me")["n1"].value
    assert back is not None
    assert (back.was, back.now) == (second.name, first.name)
    assert _whole(prefix) == first.name
    listed = work.listed(hosts, at)["n1"].value
    assert listed is not None
    assert (listed.current, listed.previous, {name for name, _, _ in listed.builds}) == (
        first.name, second.name, {first.name, second.name},
    )  # fmt: skip


def test_without_a_previous_build_nothing_is_rolled_back(tmp_path: Path) -> None:
    build = _build(tmp_path / "b")
    _deploy(build, tmp_path / "p")
    outcome = work.rollback({"n1": LocalHost("n1")}, {"n1": str(tmp_path / "p")}, "me")["n1"]
    assert "n1: rollback: there is no previous build" in str(outcome.error)
    assert isinstance(outcome.error, UsageError), "to run it again is no use"
    assert _whole(tmp_path / "p") == build.name


def test_old_builds_go_and_with_them_what_only_they_had(tmp_path: Path) -> None:
    prefix = tmp_path / "p"
    made = [_build(tmp_path / f"b{n}", f"b{n}", **{"bin/tool": f"#!/bin/sh\necho {n}\n".encode()}) for n in range(5)]
    for each in made:
        os.utime(tmp_path)
        _deploy(each, prefix, keep=2)
    assert {path.name for path in (prefix / "builds").iterdir()} == {made[3].name, made[4].name}
    assert {path.name for path in (prefix / "objects").iterdir()} == {*made[3].objects, *made[4].objects}


def test_an_object_that_was_damaged_on_the_host_is_sent_again(tmp_path: Path) -> None:
    build = _build(tmp_path / "b")
    _deploy(build, tmp_path / "p")
    victim = tmp_path / "p" / "objects" / next(file.sha256 for file in build.files if file.path == "lib/big.so")
    victim.chmod(0o600)
    victim.write_bytes(b"rotten")
    assert _deploy(build, tmp_path / "p").value.sent_files == 1
    assert _whole(tmp_path / "p") == build.name


@pytest.mark.parametrize("step", range(8))
def test_a_host_lost_at_any_step_keeps_what_it_had(tmp_path: Path, step: int) -> None:
    prefix, first, second = (
        tmp_path / "p",
        _build(tmp_path / "b1"),
        _build(tmp_path / "b2", "b2", **{"lib/big.so": BIG[1:]}),
    )
    _deploy(first, prefix)
    host = Wrapped("n1", fails_at=step)
    failed = False
    try:
        failed = _deploy(second, prefix, host).error is not None
    except InfraError:
        failed = True
    assert failed is (len(host.calls) > step)
    assert _whole(prefix) in ((first.name,) if "r2cc-install" not in host.calls[:-1] else (second.name,))
    assert _deploy(second, prefix).error is None
    assert _whole(prefix) == second.name
    assert not (prefix / "incoming").exists()


def test_a_full_disk_leaves_the_old_build(tmp_path: Path) -> None:
    prefix, first = tmp_path / "p", _build(tmp_path / "b1")
    _deploy(first, prefix)
    noise = os.urandom(200_000)
    second = _build(tmp_path / "b2", "b2", **{"lib/big.so": noise})
    full = Wrapped("n1", words=("sh", "-c", 'ulimit -f 100; exec "$@"', "full"))  # no file over 50 or 100 KiB
    outcome = _deploy(second, prefix, full)
    assert isinstance(outcome.error, InfraError)
    assert "lib/big.so did not arrive" in outcome.error.message
    assert _whole(prefix) == first.name
    assert _deploy(second, prefix).error is None


def test_the_second_of_two_deploys_is_refused_with_the_firsts_name(tmp_path: Path) -> None:
    build = _build(tmp_path / "b")
    _deploy(build, tmp_path / "p")
    with remote.locked(LocalHost("n1"), str(tmp_path / "p"), "token1", "alice@login, pid 7") as shared:
        assert shared == ""
        hosts = {"n1": LocalHost("n1"), "n2": LocalHost("n2")}
        other = {"n1": str(tmp_path / "p"), "n2": str(tmp_path / "q")}
        second = _build(tmp_path / "b2", "b2")
        planned = work.plan(hosts, other, lambda _: second)
        with pytest.raises(InfraError, match="n1: another deploy is at work there: alice@login, pid 7"):
            work.deploy(hosts, planned, "me", keep=3, told=lambda _host, _what: None)
        assert not (tmp_path / "q" / "current").exists()  # nobody gets half of the hosts
        with remote.locked(LocalHost("n2"), str(tmp_path / "p"), "token1", "alice@login, pid 7") as other:
            assert other == "n1"  # the same controller, another host: they share the folder
    assert _deploy(_build(tmp_path / "b2", "b2"), tmp_path / "p").error is None


def test_hosts_that_share_a_folder(tmp_path: Path) -> None:
    build = _build(tmp_path / "b")
    hosts = {name: LocalHost(name) for name in ("n1", "n2", "n3")}
    planned = work.plan(hosts, dict.fromkeys(hosts, str(tmp_path / "p")), lambda _: build)
    results = work.deploy(hosts, planned, "me", keep=3, told=lambda _host, _what: None)
    assert [outcome.error for outcome in results.values()] == [None] * 3
    assert {outcome.value.now for outcome in results.values() if outcome.value} == {build.name}
    assert _whole(tmp_path / "p") == build.name


def test_what_fails_in_a_folder_fails_for_all_hosts_that_share_it(tmp_path: Path) -> None:
    build = _build(tmp_path / "b")
    hosts = {name: LocalHost(name) for name in ("n1", "n2", "n3")}
    prefixes = dict.fromkeys(hosts, str(tmp_path / "p"))
    planned = work.plan(hosts, prefixes, lambda _: build)
    work.deploy(hosts, planned, "me", keep=3, told=lambda _host, _what: None)
    back = work.rollback(hosts, prefixes, "me")
    assert {name: "there is no previous build" in str(each.error) for name, each in back.items()} == dict.fromkeys(
        hosts, True
    )
    assert [each.value for each in back.values()] == [None] * 3
    assert _whole(tmp_path / "p") == build.name


def test_one_host_that_fails_hides_nothing(tmp_path: Path) -> None:
    build = _build(tmp_path / "b")
    hosts = {"n1": LocalHost("n1"), "n2": Wrapped("n2", fails_at=3)}
    planned = work.plan(hosts, {name: str(tmp_path / name) for name in hosts}, lambda _: build)
    results = work.deploy(hosts, planned, "me", keep=3, told=lambda _host, _what: None)
    assert results["n1"].error is None
    assert "n2" in str(results["n2"].error)
    assert _whole(tmp_path / "n1") == build.name
    assert not (tmp_path / "n2" / "current").exists()


FACTS = HostFacts(
    prefix="/p",
    system="Linux",
    machine="x86_64",
    glibc=(2, 31),
    versions=frozenset({("GLIBCXX", (3, 4, 28)), ("CXXABI", (1, 3, 12))}),
    missing=(),
    unwritable="",
    foreign=(),
    free_bytes=1 << 30,
    current="",
    previous="",
    gzip=True,
)
NEEDS = needs.Needs(frozenset({"x86_64"}), {"GLIBC": ((2, 31), "bin/a"), "GLIBCXX": ((3, 4, 28), "lib/b")})


@pytest.mark.parametrize(
    ("changes", "asked", "why"),
    [
        ({}, NEEDS, None),
        (
            {"machine": "aarch64"},
            NEEDS,
            "n1: has a CPU of kind aarch64, the build is for x86_64; "
            "`r2cc build net --cpu aarch64` makes one for --build net",
        ),
        ({"glibc": (2, 9)}, NEEDS, "n1: has glibc 2.9, bin/a needs 2.31"),
        (
            {"versions": frozenset({("GLIBCXX", (3, 4, 9))})},
            NEEDS,
            "n1: has libstdc++ with GLIBCXX_3.4.9, lib/b needs 3.4.28",
        ),
        ({"versions": frozenset()}, NEEDS, "n1: has no libstdc++, lib/b needs GLIBCXX_3.4.28"),
        ({"missing": ("flock",)}, NEEDS, "n1: lacks flock"),
        ({"unwritable": "/opt"}, NEEDS, "n1: /opt cannot be written (prefix /p)"),
        ({"system": "FreeBSD"}, NEEDS, "n1: runs FreeBSD, not Linux"),
        ({"built": "x86_64"}, NEEDS, None),
        (
            {"built": "aarch64"},
            NEEDS,
            "n1: /p/current is for aarch64, and this CPU is x86_64; if hosts of both kinds share that folder, give "
            "those of one kind another `prefix:` in the inventory; else remove /p/current there",
        ),
        ({"foreign": ("/p/current",)}, NEEDS, "n1: /p/current is there and is no link of ours"),
    ],
)
def test_why_a_build_cannot_be_put_on_a_host(changes: dict[str, Any], asked: needs.Needs, why: str | None) -> None:
    assert list(unfit("n1", replace(FACTS, **changes), asked)) == ([why] if why else [])


def test_too_little_space_is_found_before_anything_is_copied() -> None:
    assert list(too_full("n1", FACTS, 100 << 20)) == []
    assert list(too_full("n1", replace(FACTS, free_bytes=10 << 20), 100 << 20)) == [
        "n1: 10 MiB are free at /p, 132 MiB are needed"
    ]
    assert list(too_full("n1", replace(FACTS, free_bytes=1), 0)) == []


def test_all_that_is_wrong_on_all_hosts_is_told_and_nothing_copied(tmp_path: Path) -> None:
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "current").write_text("not ours")
    (tmp_path / "n2").write_text("a file")
    hosts = {name: LocalHost(name) for name in ("n1", "n2", "n3")}
    made = _build(tmp_path / "b")  # once: hosts are asked at the same time, and one would read what another writes
    with pytest.raises(InputErrors) as caught:
        work.plan(hosts, {name: str(tmp_path / name) for name in hosts}, lambda _: made)
    assert [error.partition(":")[0] for error in caught.value.errors[:-1]] == ["n1", "n2"]
    assert not (tmp_path / "n3").exists()


def test_what_real_programs_need(tmp_path: Path) -> None:
    found = needs.of(_build(tmp_path / "b", **{"bin/true": Path("/bin/true").read_bytes()}))
    assert found.machines == {platform.machine()}
    assert found.versions["GLIBC"][1] == "bin/true"
    facts = remote.facts(LocalHost("n1"), "~/none")
    assert (facts.machine, facts.system, facts.missing) == (platform.machine(), "Linux", ())
    assert facts.prefix == f"{Path.home()}/none"
    assert facts.glibc >= found.versions["GLIBC"][0]
    assert facts.free_bytes
    assert list(unfit("n1", facts, found)) == []


@pytest.mark.parametrize("text", ["{}", "no json", '{"build_id": "../x"}'])
def test_a_folder_that_is_no_build(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError):
        builds.folder(tmp_path)
    (tmp_path / "build.json").write_text(text)
    with pytest.raises(UsageError):
        builds.folder(tmp_path)


CROSS = {"x86_64": "aarch64", "aarch64": "x86_64"}.get(platform.machine(), "none")
CROSS_TOOLS = (f"{CROSS}-linux-gnu-gcc", f"qemu-{CROSS}-static", "gcc")


def _programs(folder: Path, compiler: str, sources: str = "a") -> None:
    """What `build net` leaves, as far as deploying knows: a program that says its CPU, for the bench and all else."""
    folder.mkdir(parents=True)
    (folder / "said.c").write_text(
        '#include <stdio.h>\n#ifdef __aarch64__\n#define CPU "aarch64"\n#else\n#define CPU "x86_64"\n#endif\n'
        "int main(void) { puts(CPU); return 0; }\n"
    )
    subprocess.run([compiler, "-static", "-o", folder / "said", folder / "said.c"], check=True, timeout=60)
    for name in set(builds.NET.values()):
        shutil.copy(folder / "said", folder / name)
    record = {"build_id": f"b{compiler.partition('-')[0]}", "inputs": {"sources": sources, "compiler": compiler}}
    (folder / "build.json").write_text(json.dumps(record))


@pytest.mark.skipif(not all(map(shutil.which, CROSS_TOOLS)), reason=f"needs {', '.join(CROSS_TOOLS)}")
def test_a_host_with_another_cpu_gets_what_was_built_for_it(tmp_path: Path) -> None:
    """One host says another CPU; its programs are for that one, and run there, in QEMU."""
    says = tmp_path / "tools" / "uname"
    says.parent.mkdir()
    says.write_text(f'#!/bin/sh\n[ "$1" = -m ] && echo {CROSS} || exec /usr/bin/uname "$@"\n')
    says.chmod(0o755)
    other = Wrapped("n2", ("env", f"PATH={says.parent}:{os.environ['PATH']}"))
    hosts: dict[str, Host] = {"n1": LocalHost("n1"), "n2": other}
    layout = Layout(tmp_path / "checkout")
    (layout.root / "harness").mkdir(parents=True)
    (layout.root / "harness" / "__init__.py").touch()
    _programs(layout.net, "gcc")
    prefixes = {name: str(tmp_path / name) for name in hosts}

    def planned(what: str) -> dict[str, work.Planned]:
        return work.plan(hosts, prefixes, builds.for_machines(layout, what, builds.net(layout)))

    with pytest.raises(InputErrors, match=f"n2: has a CPU of kind {CROSS}.*r2cc build net --cpu {CROSS}"):
        planned("net")
    _programs(layout.for_cpu(CROSS).net, CROSS_TOOLS[0], "older")
    with pytest.raises(InfraError, match=f"built for {CROSS} is of other sources"):
        planned("auto")
    shutil.rmtree(layout.for_cpu(CROSS).net)
    _programs(layout.for_cpu(CROSS).net, CROSS_TOOLS[0])
    with pytest.raises(InputErrors, match="makes one for --build net"):
        planned("nccl")
    made = planned("auto")
    assert [build.build_id for build in work.builds(made)] == ["bgcc", f"b{CROSS}"]
    done = work.deploy(hosts, made, "me", keep=3, told=lambda _host, _what: None)
    assert all(outcome.error is None for outcome in done.values())
    said = []
    for name, before in (("n1", []), ("n2", [CROSS_TOOLS[1]])):
        _whole(tmp_path / name)
        bench = str(tmp_path / name / "current" / "bin" / "r2cc_bench")
        said.append(subprocess.run([*before, bench], capture_output=True, text=True, check=True, timeout=60).stdout)
    assert said == [f"{platform.machine()}\n", f"{CROSS}\n"]
    shared = tmp_path / "shared"
    prefixes = dict.fromkeys(hosts, str(shared))
    with pytest.raises(InputErrors) as both:
        work.deploy(hosts, planned("auto"), "me", keep=3, told=lambda _host, _what: None)
    kinds = {"n1": platform.machine(), "n2": CROSS}
    assert both.value.errors[0].startswith(f"{shared} is one folder on hosts of two kinds of CPU: ")
    assert all(f"{name} ({kinds[name]})" in both.value.errors[0] for name in hosts)
    assert [*shared.glob("*/*")] == []
    assert not (shared / "current").exists()
    work.deploy({"n1": hosts["n1"]}, planned("auto"), "me", keep=3, told=lambda _host, _what: None)
    with pytest.raises(InputErrors, match=f"n2: {shared}/current is for {kinds['n1']}, and this CPU is {CROSS}"):
        planned("auto")
