"""Manifests: what R2CC needs stands in each pod, nobody is root, and the forms are those that the controllers publish.

R2CC_K8S_CRDS names a folder with the controllers' CustomResourceDefinitions (*.yaml), which are not ours to keep: each
manifest is held against theirs then, whole. Without it, against `FORMS`, our own words for the keys that we use.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from harness.cli import cli
from harness.kubernetes.jobs import JOBS

CRDS = os.environ.get("R2CC_K8S_CRDS")
JOB = ["--name", "train", "--nodes", "3", "--image", "site/train:1", "--plugin-image", "site/r2cc:1"]
MORE = ["--resource", "rdma/hca=8", "--status", "/run/r2cc-status", "--control", "/run/r2cc-control"]
RUN = ["--", "torchrun", "train.py"]
NAMES = {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["name"]}}
POD = {
    "type": "object",
    "additionalProperties": False,
    "required": ["containers", "initContainers", "securityContext", "volumes"],
    "properties": {
        "restartPolicy": {"enum": ["Never", "OnFailure"]},
        "hostNetwork": {"const": True},
        "dnsPolicy": {"const": "ClusterFirstWithHostNet"},
        "securityContext": {"type": "object", "properties": {"runAsNonRoot": {"const": True}}},
        **dict.fromkeys(("initContainers", "containers", "volumes"), NAMES),
    },
}
TEMPLATE = {"type": "object", "additionalProperties": False, "required": ["spec"], "properties": {"spec": POD}}
COUNT = {"type": "integer", "minimum": 1}


def keys(needed: dict[str, Any], **others: Any) -> dict[str, Any]:
    properties = {**needed, **others}
    return {"type": "object", "additionalProperties": False, "required": [*needed], "properties": properties}


JOB_SPEC = keys(
    {"backoffLimit": {"const": 0}, "template": TEMPLATE},
    parallelism=COUNT, completions=COUNT, completionMode={"const": "Indexed"},
)  # fmt: skip
REPLICATED = {
    "type": "array",
    "minItems": 1,
    "items": keys({"name": {"type": "string"}, "replicas": COUNT, "template": keys({"spec": JOB_SPEC}, metadata={})}),
}
REPLICA = keys({"replicas": COUNT, "template": TEMPLATE})
FORMS = {
    "MPIJob": keys(
        {"slotsPerWorker": COUNT, "sshAuthMountPath": {"type": "string"}, "runPolicy": {"type": "object"},
         "mpiReplicaSpecs": keys({"Launcher": REPLICA, "Worker": REPLICA})},
    ),
    "JobSet": keys({"network": keys({"enableDNSHostnames": {"const": True}}), "replicatedJobs": REPLICATED}),
    "TrainingRuntime": keys(
        {"mlPolicy": keys({"numNodes": COUNT, "torch": {"type": "object"}}),
         "template": keys({"spec": keys({"replicatedJobs": REPLICATED})})},
    ),
    "TrainJob": keys(
        {"runtimeRef": keys({name: {"type": "string"} for name in ("apiGroup", "kind", "name")}),
         "trainer": keys({"numNodes": COUNT})},
    ),
}  # fmt: skip
SERVICES = [["metrics", "--image", "site/r2cc:1"], ["agent", "--image", "site/r2cc:1"]]
SERVICE = {"Namespace", "ConfigMap", "DaemonSet"}


def rendered(*words: str) -> list[dict[str, Any]]:
    done = run(*words)
    assert done.exit_code == 0, done.output
    return list(yaml.safe_load_all(done.stdout))


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["k8s", "render", *words], standalone_mode=True)


@cache
def published() -> dict[tuple[str, str], Any]:
    """By API version and kind."""
    found = {}
    for file in Path(CRDS or "/nonexistent").glob("*.yaml"):
        crd = yaml.safe_load(file.read_text())
        for version in crd["spec"]["versions"]:
            name = (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"])
            found[name] = strict(version["schema"]["openAPIV3Schema"])
    return found


def strict(schema: Any) -> Any:
    """Kubernetes drops keys that nobody knows: here they are a mistake."""
    schema = copy.deepcopy(schema)
    todo = [schema]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            if "properties" in each and "additionalProperties" not in each:
                each["additionalProperties"] = bool(each.get("x-kubernetes-preserve-unknown-fields"))
            todo += each.values()
        elif isinstance(each, list):
            todo += each
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


def problems(manifest: dict[str, Any]) -> list[str]:
    kind, version = manifest["kind"], manifest["apiVersion"]
    if kind in SERVICE:
        return []
    if CRDS:
        validator = Draft202012Validator(published()[version, kind])
        return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(manifest)]
    return [
        f"{error.json_path}: {error.message}"
        for error in Draft202012Validator(FORMS[kind]).iter_errors(manifest["spec"])
    ]


def pods(value: Any) -> list[dict[str, Any]]:
    """Every pod's spec, wherever it is."""
    if isinstance(value, dict):
        here = [value] if "containers" in value else []
        return here + [pod for each in value.values() for pod in pods(each)]
    return [pod for each in value for pod in pods(each)] if isinstance(value, list) else []


@pytest.mark.parametrize("more", [[], MORE, ["--host-network", "--gpus", "0"]])
@pytest.mark.parametrize("kind", [*JOBS])
def test_a_job_has_what_r2cc_needs_and_no_root(kind: str, more: list[str]) -> None:
    found = rendered(kind, *JOB, *more, *RUN)
    assert [line for each in found for line in problems(each)] == []
    (settings,) = [each for each in found if each["kind"] == "ConfigMap"]
    assert settings["data"]["NCCL_NET_PLUGIN"] == "/r2cc/libr2cc_net.so"
    every = pods(found)
    assert len(every) == (2 if kind == "mpijob" else 1)
    for pod in every:
        (init,), (main,) = pod["initContainers"], pod["containers"]
        assert init["command"] == ["r2cc-copy-plugin", "/r2cc"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 1000
        assert main["envFrom"] == [{"configMapRef": {"name": settings["metadata"]["name"]}}]
        for container in (init, main):
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
        mounts = {mount["name"]: mount for mount in main["volumeMounts"]}
        assert {*mounts} == {volume["name"] for volume in pod["volumes"]}
        assert mounts["r2cc"]["mountPath"] == init["volumeMounts"][0]["mountPath"]
        if more is MORE:
            assert main["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
            assert mounts["control"]["readOnly"]
            assert settings["data"]["R2CC_STATUS_DIR"] == mounts["status"]["mountPath"]


def lost(ours: Any, theirs: Any, path: str) -> list[str]:
    """What of ours is not in theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [line for key in ours for line in lost(ours[key], theirs.get(key), f"{path}.{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) <= len(theirs):
        return [line for index, each in enumerate(ours) for line in lost(each, theirs[index], f"{path}[{index}]")]
    return [] if ours == theirs else [f"{path}: {ours!r}, and kubectl has {theirs!r}"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
@pytest.mark.parametrize(
    "words", [*([kind, *JOB, *MORE, *RUN] for kind in JOBS), *SERVICES], ids=lambda words: words[0]
)
@pytest.mark.parametrize("mistaken", [False, True])
def test_kubectl_knows_every_key(words: list[str], mistaken: bool, tmp_path: Path) -> None:
    """It needs no cluster to read a manifest as its own types, which drop what they do not know."""
    file = tmp_path / "manifest.yaml"
    ours = rendered(*words)
    every = [each for each in ours if each["kind"] == "DaemonSet"]
    every += [
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": {"template": {"spec": pod}}}
        for each in ours if each["kind"] not in SERVICE for pod in pods(each)
    ]  # fmt: skip
    if mistaken:
        every = [each for each in every if each["kind"] == "Job"]
        for each in every:
            each["spec"]["template"]["spec"]["contaners"] = []
    assert every or mistaken
    for manifest in every:
        file.write_text(yaml.safe_dump(manifest))
        done = subprocess.run(
            ["kubectl", "set", "serviceaccount", "--local", "-f", str(file), "anybody", "-o", "json"],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = lost(manifest, json.loads(done.stdout), manifest["kind"])
        assert found == (["Job.spec.template.spec.contaners: [], and kubectl has None"] if mistaken else [])


def test_the_forms_find_a_mistake() -> None:
    (_, job) = rendered("jobset", *JOB, *RUN)
    pods(job)[0]["contaners"] = []
    assert problems(job)


def test_ranks_of_mpirun_are_told() -> None:
    """sshd gives a rank none of its container's variables: mpirun hands on those that it is told to."""
    found = rendered("mpijob", *JOB, "--env", "NCCL_DEBUG=INFO", "--", "mpirun", "x")
    launcher = found[1]["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    (named,) = [each["value"] for each in launcher["env"] if each["name"] == "OMPI_MCA_mca_base_env_list"]
    assert {*found[0]["data"]} <= {*named.split(";")}
    assert "nvidia.com/gpu" not in json.dumps(launcher)


def test_the_agent_is_privileged_and_sees_its_node() -> None:
    space, agent = rendered("agent", "--image", "site/r2cc:1", "--node-selector", "gpu=yes")
    (pod,) = pods(agent)
    assert pod["hostPID"] and pod["hostNetwork"] and pod["containers"][0]["securityContext"]["privileged"]
    assert pod["nodeSelector"] == {"gpu": "yes"}
    assert space["metadata"]["name"] == agent["metadata"]["namespace"]
    labels = agent["spec"]["template"]["metadata"]["labels"]
    assert agent["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_metrics_are_served_by_nobody_of_a_folder_that_every_job_may_write_to() -> None:
    (metrics,) = rendered("metrics", "--image", "site/r2cc:1", "--node-selector", "gpu=yes", "--port", "9500")
    (pod,) = pods(metrics)
    (opens,), (serves,) = pod["initContainers"], pod["containers"]
    assert opens["command"] == ["chmod", "1777", "/run/r2cc-status"]
    assert serves["command"] == ["r2cc", "metrics", "--status", "/run/r2cc-status", "--listen", "9500"]
    assert serves["ports"][0]["containerPort"] == 9500 and serves["volumeMounts"][0]["readOnly"]
    assert serves["securityContext"]["runAsNonRoot"] and pod["nodeSelector"] == {"gpu": "yes"}
    assert "hostNetwork" not in pod and "hostPID" not in pod
    for container in (opens, serves):
        assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["jobset", *JOB], "no program is named"),
        (["jobset", *JOB, "--name", "A_b", *RUN], "--name 'A_b' cannot be"),
        (["jobset", *JOB, "--user", "0", *RUN], "--user 0 is root"),
        (["jobset", *JOB, "--env", "x", *RUN], "--env 'x' is no NAME=VALUE"),
        (["mpijob", *JOB, "--env", "a-b=1", *RUN], "--env 'a-b' cannot be"),
        (["jobset", *JOB, "--status", "run", *RUN], "--status 'run' cannot be"),
        (["jobset", *JOB, "--resource", "rdma/hca=many", *RUN], "--resource 'many' cannot be"),
        (["agent", "--image", "a b"], "--image 'a b' cannot be"),
        (["metrics", "--image", "a", "--status", "run"], "--status 'run' cannot be"),
        (["metrics", "--image", "a", "--namespace", "A_b"], "--namespace 'A_b' cannot be"),
    ],
)
def test_what_cannot_be_is_said(words: list[str], says: str) -> None:
    from harness.errors import UsageError

    done = run(*words)
    assert isinstance(done.exception, UsageError), done.output
    assert says in str(done.exception)
