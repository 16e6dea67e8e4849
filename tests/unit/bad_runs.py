"""Run directories as nobody should make them: each spoils one run, and must spoil no other."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]
NAME = "20260204T050607Z-rail_down"
LOG = """\
# nThread 1 nGpus 4 minBytes 1024 maxBytes 1024
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
        1024           256     float     sum      -1    21.50    0.05    0.08       0    20.00    0.05    0.08       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.08
"""
DEEP = "[" * 1000 + "]" * 1000
BOMB = "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))])


def summary(**changes: Any) -> Json:
    moved = {"h0": {"eth0": {"tx_bytes": 40, "rx_bytes": 40}}}
    fault = {"stall_ms": 3.5, "iteration_ms": 120.0, "iteration_bound_ms": 110.0}
    metric = {"name": "busbw", "unit": "GBps", "size_bytes": 4096, "value": 0.75, "bound": None}
    runs = [
        {"run": n, "healthy_ms": {"median": 61.0 + n, "p99": 70.0}, "faults": [fault], "metrics": [metric],
         "bytes_per_nic": moved}
        for n in range(6)
    ]  # fmt: skip
    arms = [{"name": name, "runs": runs, "metrics": []} for name in ("stock", "migrate")]
    about = {"schema": 1, "experiment": "rail_down", "verdict": "holds", "exit_code": 0, "bed": "lab", "seed": 3}
    return about | {"hardware": {"fingerprint": "c0ffee"}, "build_id": "b7", "arms": arms} | changes


def make(store: Path, name: str, **files: str | bytes) -> Path:
    """A run with these files; dots of their names are written `__`."""
    folder = store / name
    folder.mkdir(parents=True)
    for file, content in files.items():
        path = folder / file.replace("__", ".")
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def good(store: Path, name: str, **changes: Any) -> Path:
    return make(store, name, journal__jsonl="", summary__json=json.dumps(summary(**changes)))


def with_summary(text: str | bytes) -> Callable[[Path], Path]:
    return lambda store: make(store, NAME, journal__jsonl="", summary__json=text)


def spoiled(**changes: Any) -> Callable[[Path], Path]:
    """JSON as Python writes it, which has NaN, Infinity and lone surrogates."""
    return with_summary(json.dumps(summary(**changes)))


def with_file(name: str, spoil: Callable[[Path], object], *, finished: bool = True) -> Callable[[Path], Path]:
    def made(store: Path) -> Path:
        folder = good(store, NAME)
        if not finished:
            (folder / "summary.json").unlink()
        (folder / name).unlink(missing_ok=True)
        spoil(folder / name)
        return folder

    return made


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(path.parent)  # the name of a socket has few letters
        try:
            listener.bind(path.name)
        finally:
            os.chdir(here)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def text(content: str | bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content)


def arm_with(**run: Any) -> Json:
    return {"arms": [{"name": "stock", "runs": [{"run": 0, **run}]}]}


def metric_with(**changes: Any) -> Json:
    return arm_with(metrics=[{"name": "busbw", "unit": "GBps", "size_bytes": 8, "value": 1.0, **changes}])


def named(name: str | bytes) -> Callable[[Path], Path]:
    return lambda store: good(store, os.fsdecode(name))


BAD: Mapping[str, tuple[Callable[[Path], Path], str]] = {
    "value of 10^400": (spoiled(**metric_with(value=10**400)), "more than 64 bits"),
    "value of 1e999": (with_summary(json.dumps(summary()).replace("0.75", "1e999")), "infinite"),
    "value is no number": (spoiled(**metric_with(value=float("nan"))), "NaN is no number"),
    "value is infinite": (spoiled(**metric_with(value=float("-inf"))), "-Infinity is no number"),
    "bound of 2^63": (spoiled(**metric_with(bound=2**63)), "more than 64 bits"),
    "size of 2^63": (spoiled(**metric_with(size_bytes=2**63)), "more than 64 bits"),
    "seed of 2^63": (spoiled(seed=2**63), "more than 64 bits"),
    "seed of -2^63 - 1": (spoiled(seed=-(2**63) - 1), "more than 64 bits"),
    "exit code of 2^64": (spoiled(exit_code=2**64), "more than 64 bits"),
    "repeat of 2^70": (spoiled(**arm_with(run=2**70)), "more than 64 bits"),
    "bytes of 2^80": (spoiled(**arm_with(bytes_per_nic={"h0": {"e": {"tx_bytes": 2**80}}})), "more than 64 bits"),
    "a number of 9,999 digits": (with_summary('{"seed": ' + "7" * 9999 + "}"), "more than 64 bits"),
    "deep JSON": (with_summary('{"arms": ' + DEEP + "}"), "more than 64 levels deep"),
    "very deep JSON": (with_summary("[" * 300_000), "more than 64 levels deep"),
    "lone surrogate": (spoiled(experiment="x\ud800"), "no Unicode"),
    "lone surrogate in a key": (spoiled(**{"\udfff": 1}), "no Unicode"),
    "not UTF-8": (with_summary(b'{"experiment": "\xff"}'), "not UTF-8"),
    "empty": (with_summary(""), "no JSON"),
    "cut off": (with_summary(json.dumps(summary())[:-3]), "no JSON"),
    "a list": (with_summary("[]"), "no JSON object"),
    "schema 99": (spoiled(schema=99), "written by a newer r2cc"),
    "schema true": (spoiled(schema=True), "says no version"),
    "schema 0": (spoiled(schema=0), "another version"),
    "schema text": (spoiled(schema="1"), "says no version"),
    "seed is text": (spoiled(seed="3"), "seed"),
    "seed is true": (spoiled(seed=True), "seed"),
    "seed is a fraction": (spoiled(seed=1.5), "seed"),
    "verdict is a list": (spoiled(verdict=["holds"]), "verdict"),
    "hardware is text": (spoiled(hardware="fast"), "hardware"),
    "arms is null": (spoiled(arms=None), "arms"),
    "arms is a mapping": (spoiled(arms={"stock": {}}), "arms"),
    "an arm is a number": (spoiled(arms=[7]), "arms.0"),
    "an arm has no name": (spoiled(arms=[{"runs": []}]), "arms.0.name"),
    "runs is text": (spoiled(arms=[{"name": "stock", "runs": "none"}]), "arms.0.runs"),
    "value is text": (spoiled(**metric_with(value="1.0")), "value"),
    "value is true": (spoiled(**metric_with(value=True)), "value"),
    "healthy is a list": (spoiled(**arm_with(healthy_ms=[1.0])), "healthy_ms"),
    "a name of a megabyte": (spoiled(experiment="x" * (1 << 20)), "experiment"),
    "summary is a folder": (with_file("summary.json", Path.mkdir), "a folder, not a file"),
    "summary is a pipe": (with_file("summary.json", os.mkfifo), "a named pipe, not a file"),
    "summary is a socket": (with_file("summary.json", _socket), "a socket, not a file"),
    "summary is a loop": (with_file("summary.json", lambda path: path.symlink_to(path.name)), "a symbolic link"),
    "summary is a device": (with_file("summary.json", lambda path: path.symlink_to("/dev/zero")), "a symbolic link"),
    "summary is a link": (with_file("summary.json", lambda path: path.symlink_to("/etc/hostname")), "a symbolic link"),
    "summary has a terabyte": (with_file("summary.json", _sparse), "larger than"),
    "environment is a pipe": (with_file("environment.json", os.mkfifo), "environment.json is a named pipe"),
    "environment has a terabyte": (with_file("environment.json", _sparse), "environment.json is larger than"),
    "environment is deep": (with_file("environment.json", text('{"a": ' + DEEP + "}")), "environment.json is more"),
    "environment of schema 7": (with_file("environment.json", text('{"schema": 7}')), "written by a newer r2cc"),
    "source is a number": (with_file("environment.json", text('{"source": 7}')), "source"),
    "journal of schema 2": (
        with_file("journal.jsonl", text('{"schema":2,"t_ns":1,"host":"h","arm":"-","run":0,"event":"log"}\n')),
        "written by a newer r2cc",
    ),
    "journal is a pipe": (with_file("journal.jsonl", os.mkfifo), "journal.jsonl is a named pipe"),
    "tags is null": (with_file("tags.json", text('{"schema": 1, "tags": null}')), "tags"),
    "tags is 5": (with_file("tags.json", text('{"schema": 1, "tags": 5}')), "tags"),
    "a tag is a number": (with_file("tags.json", text('{"schema": 1, "tags": [5]}')), "tags.0"),
    "tags of schema 2": (with_file("tags.json", text('{"schema": 2, "tags": []}')), "written by a newer r2cc"),
    "tags is a folder": (with_file("tags.json", Path.mkdir), "tags.json is a folder"),
    "tags is a pipe": (with_file("tags.json", os.mkfifo), "tags.json is a named pipe"),
    "alias bomb": (with_file("experiment.yaml", text(BOMB), finished=False), "aliases"),
    "alias of itself": (with_file("experiment.yaml", text("name: &a [*a]"), finished=False), "alias"),
    "deep YAML": (with_file("experiment.yaml", text("name: " + DEEP), finished=False), "more than 64 levels deep"),
    "YAML surrogate": (with_file("experiment.yaml", text('name: "\\ud800"'), finished=False), "experiment.yaml"),
    "YAML's name is a number": (with_file("experiment.yaml", text("name: 8"), finished=False), "name"),
    "YAML is a list": (with_file("experiment.yaml", text("[name]"), finished=False), "no mapping"),
    "YAML is none": (with_file("experiment.yaml", text("{"), finished=False), "no YAML"),
    "YAML's tag does not fit": (with_file("experiment.yaml", text("name: !!bool maybe"), finished=False), "no YAML"),
    "YAML is a pipe": (with_file("experiment.yaml", os.mkfifo, finished=False), "experiment.yaml is a named pipe"),
    "YAML has a terabyte": (with_file("experiment.yaml", _sparse, finished=False), "experiment.yaml is larger"),
    "simulation of schema 3": (with_file("simulation.json", text('{"schema": 3}')), "written by a newer r2cc"),
    "simulation's points": (with_file("simulation.json", text('{"schema": 1, "points": [1]}')), "points.0"),
    "simulation is a pipe": (with_file("simulation.json", os.mkfifo), "simulation.json is a named pipe"),
    "sweep is a folder": (with_file("sweep.json", Path.mkdir), "sweep.json is a folder"),
    "no such day": (named("20269999T999999Z-x"), "no time"),
    "not UTF-8 name": (named(b"20260204T050607Z-\xff\xfe"), "not UTF-8"),
    "escape codes": (named("20260204T050607Z-\x1b[31mred\x1b]0;owned\x07"), "control characters"),
    "line breaks": (named("20260204T050607Z-a\nb"), "control characters"),
    "writes from right to left": (named("20260204T050607Z-\u202eabc"), "control characters"),
}
"""By what is wrong: what makes the run in a store, and what its reason says."""

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from([2**63, 10**400, "\ud800", "\x1b[2J", [[[]]], "holds", -1]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def places(value: Any) -> list[tuple[Any, ...]]:
    """Of everything in it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((key, *rest) for key, each in inner for rest in places(each))]
