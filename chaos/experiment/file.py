"""Experiment files: YAML to a checked Experiment, with every error of the file at once, each with file and line."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from chaos.experiment import topologies
from chaos.experiment.model import ARM_NAME, MODES, RESTART, UPSTREAM, Arm, Experiment, Hypothesis, Limits
from chaos.experiment.timeline import Place, Report, problems_of_timeline
from chaos.faults.registry import forms as fault_forms
from chaos.faults.registry import kinds
from chaos.faults.registry import model_of as model_of_fault
from chaos.faults.spec import FaultSpec
from harness.config import documents, yaml_text
from harness.config.documents import Document
from harness.config.dotted import applied
from harness.config.fitting import fitted, keys_of
from harness.config.kinds import EXPERIMENT
from harness.config.words import in_order, meant
from harness.errors import InputErrors
from harness.schemas.form import form
from harness.workloads.kinds.registry import forms as workload_forms
from harness.workloads.kinds.registry import model_of as model_of_workload
from harness.workloads.kinds.workload import GpuWorkload, Workload

REQUIRED = ("name", "topology", "workload", "arms")
PLAIN = ("schema", "name", "description", "repeats", "seed")
KEYS = keys_of(Experiment)


def load(path: Path, changes: Mapping[str, Any] | None = None) -> Experiment:
    """Reads and checks an experiment file with some dotted keys changed.

    Raises InputErrors with every error, UsageError when it cannot be read.
    """
    return _changed(documents.load(path, EXPERIMENT), path, changes)


def loads(text: str, path: Path, changes: Mapping[str, Any] | None = None) -> Experiment:
    """The same from text; `path` is named in errors, and a topology file is looked for beside it."""
    return _changed(documents.parse(text, str(path), EXPERIMENT), path, changes)


def of_value(value: Mapping[str, Any], changes: Mapping[str, Any] | None = None) -> Experiment:
    """The same from what such a file holds."""
    path = Path("<experiment>")
    return _changed(Document(str(path), deepcopy(dict(value))), path, changes)


def _changed(document: Document, path: Path, changes: Mapping[str, Any] | None) -> Experiment:
    if not changes or document.unreadable:
        return checked(document, path)
    value, wrong = applied(document.value, changes)
    if wrong:
        raise InputErrors([f"--set {key}: {why}" for key, why in wrong.items()])
    return checked(document.with_value(value), path)


def checked(document: Document, path: Path) -> Experiment:
    """The experiment of a document. InputErrors with every error."""
    errors = list(document.errors)

    def report(place: Place, what: str) -> None:
        errors.append(document.said(place, what))

    found = {} if document.unreadable else _sections(document, report)
    topology = topologies.checked(document, path, errors) if "topology" in found else None
    nics = None if topology is None else topologies.nics_of(topology)
    per_host = found["workload"].per_host(topology.gpus) if topology is not None and "workload" in found else 1
    if topology is not None:
        for key, what in found["workload"].problems(topology.hosts) if "workload" in found else ():
            report(("workload", key), what)
    for index, fault in found.get("faults", {}).items():
        if "workload" in found and kinds()[fault.kind].rdma_only and not _over_rdma(found["workload"]):
            report(("faults", index, "kind"), f"{fault.kind} breaks RDMA alone: it needs workload.net: ib")
        if "workload" in found and fault.at.counted and not found["workload"].has_nccl:
            clock = "bytes" if fault.at.bytes else "collective"
            report(
                ("faults", index, "at", clock),
                "NCCL counts it, and this workload has no NCCL: give iteration or time_s",
            )
        first = found["workload"].foreseen if "workload" in found else 0
        if fault.at.iteration is not None and fault.at.iteration < first:
            report(
                ("faults", index, "at", "iteration"),
                f"when iteration {fault.at.iteration} begins cannot be foreseen: the first that can be is {first}",
            )
    problems_of_timeline(found.get("faults", {}), found.get("iterations"), nics, report, per_host)
    if errors:
        raise InputErrors(in_order(errors, str(path)))
    return _built(found, path)


def _over_rdma(workload: Workload) -> bool:
    """Whether its data may go over RDMA: NCCL chooses, where there is one."""
    return workload.net == "ib" or workload.has_nccl


def _built(checked: dict[str, Any], path: Path) -> Experiment:
    topology = checked["topology"]
    checked = {key: part for key, part in checked.items() if key in KEYS}
    if isinstance(topology, str):
        file = topologies.beside(path, topology)
        topology = str(file.resolve()) if isinstance(file, Path) else file
    return Experiment.model_validate({**checked, "topology": topology, "faults": tuple(checked["faults"].values())})


def _sections(document: Document, report: Report) -> dict[str, Any]:
    """Checks every section on its own, so that an error in one hides none in another; returns those without one."""
    value = document.value
    if not isinstance(value, dict):
        report((), "an experiment is a mapping with " + ", ".join(REQUIRED))
        return {}
    for key in value:
        if key not in KEYS:
            report((str(key),), f"unknown key{meant(key, KEYS)}; an experiment has {', '.join(KEYS)}")
    for key in REQUIRED:
        if value.get(key) is None:
            report((key,) if key in value else (), f"{key} is required")
    checked: dict[str, Any] = {key: value[key] for key in PLAIN if key in value}
    _plain(checked, report)
    if value.get("topology") is not None:
        checked["topology"] = value["topology"]
    models: tuple[tuple[str, type[BaseModel]], ...] = (
        ("workload", model_of_workload(value.get("workload"))),
        ("hypothesis", Hypothesis),
        ("limits", Limits),
    )
    for key, model in models:
        if (part := fitted(model, value.get(key, {}), report, (key,))) is not None:
            checked[key] = part
    checked["iterations"] = _iterations(value.get("workload"), checked.get("workload"))
    checked["faults"] = _faults(value.get("faults", []), report)
    checked["arms"] = _arms(value.get("arms"), report)
    _arms_of_workload(checked, report)
    return checked


def _arms_of_workload(checked: dict[str, Any], report: Report) -> None:
    """NCCL fails over between the ports of one IB device only; a job starts again where there is one."""
    workload = checked.get("workload")
    if workload is None:
        return
    if UPSTREAM in checked["arms"] and workload.net != "ib":
        report(("arms", UPSTREAM), "NCCL's own failover is one of its IB transport: it needs workload.net: ib")
    if RESTART in checked["arms"] and not isinstance(workload, GpuWorkload):
        report(("arms", RESTART), "the host bench is no job that could start again: it needs a workload on GPUs")


def _iterations(workload: Any, whole: Workload | None) -> int | None:
    """How many iterations there are, even if something else is wrong with the workload, where its section says so."""
    if whole is not None:
        return whole.measured
    if model_of_workload(workload).measured is not Workload.measured:
        return None
    count = (
        workload.get("iterations", Workload.model_fields["iterations"].default) if isinstance(workload, dict) else None
    )
    return count if isinstance(count, int) else None


def _plain(values: dict[str, Any], report: Report) -> None:
    """Name, repeats and seed, checked through the Experiment model with stand-ins for what is not plain."""
    whole = {"name": "x", **values, "topology": {}, "workload": {}, "arms": {}}
    fitted(Experiment, whole, report)


def _faults(value: Any, report: Report) -> dict[int, FaultSpec]:
    """Faults without an error, by their index in the file."""
    if not isinstance(value, list):
        report(("faults",), "a list of faults is needed here")
        return {}
    found = {
        index: fault
        for index, item in enumerate(value)
        if (fault := fitted(model_of_fault(item), item, report, ("faults", index))) is not None
    }
    first: dict[str, int] = {}
    for index, fault in found.items():
        if first.setdefault(fault.id, index) != index:
            report(("faults", index, "id"), f"the id {fault.id} is already that of fault {first[fault.id]}")
    return found


def _arms(value: Any, report: Report) -> dict[str, Arm]:
    if value is not None and (not isinstance(value, dict) or not value):
        report(
            ("arms",), "at least one arm is needed: a name and what it should do, for example stock: {expect: deviates}"
        )
        return {}
    found: dict[str, Arm] = {}
    for name, item in (value or {}).items():
        if name not in MODES:
            report(("arms", str(name)), f"no such arm on this testbed; there are {ARM_NAME}")
            continue
        arm = fitted(Arm, item, report, ("arms", name))
        if arm is not None:
            fitted(Hypothesis, arm.hypothesis, report, ("arms", name, "hypothesis"))
            found[name] = arm
    return found


def dump(experiment: Experiment) -> str:
    """The resolved experiment as YAML; loading it again gives the same experiment."""
    return yaml_text.dumped(experiment.resolved())


@form("experiment")
def json_schema() -> dict[str, Any]:
    """The form of an experiment file as JSON Schema, with all kinds of faults that are installed.

    A test keeps harness/schemas/experiment.schema.json equal, which has ours.
    """
    form = Experiment.model_json_schema()
    del form["$defs"][Workload.__name__]
    form["$defs"] |= {**fault_forms(), **workload_forms()}
    form["properties"]["workload"] = {"oneOf": _refs(form, "workload_")}
    form["properties"]["faults"]["items"] = {"oneOf": _refs(form, "fault_")}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "r2cc:experiment:1",
        **form,
        "title": "An experiment file",
    }


def _refs(form: Mapping[str, Any], start: str) -> list[dict[str, str]]:
    return [{"$ref": f"#/$defs/{name}"} for name in form["$defs"] if name.startswith(start)]
