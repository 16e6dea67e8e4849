"""A soak in slices: what one came to so far, so that it goes on where it ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from chaos.experiment.model import Experiment
from chaos.soak.draw import Shape, experiment_of
from chaos.soak.judge import Fate, OfKind, Report
from chaos.testbed.beds import topology_of
from harness.errors import UsageError
from harness.schemas import problems

BEDS: Mapping[str, Sequence[str]] = {"socket": ("lab",), "ib": ("vm", "uml")}
"""Where a soak of that transport can go on; the first, if nobody says."""


def earlier(folder: Path, given: Sequence[str]) -> Report:
    """What soak.json in `folder` says. UsageError when that cannot go on, or `given` options would change it."""
    if given:
        raise UsageError(f"{', '.join(given)}: the soak in {folder} has its own", "leave it out beside --resume")
    file = folder / "soak.json"
    try:
        words = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        why = f"{file.name}: {error.strerror}" if isinstance(error, OSError) else f"{file.name} is no JSON: {error}"
        raise UsageError(f"cannot go on with the soak in {folder}: {why}", "name the folder of a soak") from error
    if broken := problems("soak", words):
        raise UsageError(f"{file} is none of this version: {broken[0]}", "begin a new soak")
    if words["outcome"] == "failed":
        raise UsageError(f"the soak in {folder} failed: it does not go on", f"r2cc chaos run {folder}/replay.yaml")
    return _report(words)


def same_build(before: Report, build: Mapping[str, Any]) -> None:
    """One soak says something of one library. UsageError when it is another."""
    if before.build_id != build.get("build_id"):
        raise UsageError(
            f"the soak ran build {before.build_id}, and this is {build.get('build_id')}",
            "begin a new soak, or give the --nccl it had",
        )


def same_workload(before: Report, under: Experiment | None, digest: str | None) -> None:
    """UsageError when `--under` names another experiment than that of the soak which goes on, or none, or what a soak
    takes from that file (`digest`) was changed since."""
    if before.under != (under and under.name):
        ran = f"ran under {before.under}" if before.under else "had workloads of its own"
        hint = f"give --under with the file of {before.under}" if before.under else "leave --under out"
        raise UsageError(f"the soak {ran}", hint)
    if before.under_digest not in (None, digest):  # None: of a soak that was begun before digests were kept
        raise UsageError(
            f"--under: {before.under} was changed since the soak began: its topology, workload or arm {before.arm}",
            "give the file as it was, or begin a new soak",
        )


def digest_of(shape: Shape, arm: str) -> str:
    """SHA-256 of what all rounds under somebody's own experiment have in common: not its faults, words and comments."""
    assert shape.under is not None
    common = experiment_of("round", shape, (), arm, seed=0)
    told = common.model_dump(mode="json", exclude_defaults=True, exclude={"description", "topology"})
    told["topology"] = topology_of(shape.under).model_dump(mode="json", exclude_defaults=True, exclude={"name"})
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _report(words: Mapping[str, Any]) -> Report:
    known = {field.name for field in fields(Report)}
    parts = {
        **{name: value for name, value in words.items() if name in known},
        "by_kind": {kind: OfKind(**found) for kind, found in words["by_kind"].items()},
        "fates": [Fate(**fate) for fate in words.get("fates", ())],
    }
    return Report(**parts)
