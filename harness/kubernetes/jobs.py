"""Jobs of several pods, by the controllers that start them. Each form is ours; docs/howto/kubernetes.md says for which
versions of the controllers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.kubernetes.pod import Asked, Json, about, config_map, pod

PORT = 29500
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
SSHD = ("/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config")
"""As the images of the MPI operator have it: for a user who is not root, at port 2222."""


def mpijob(asked: Asked) -> list[Json]:
    """The launcher runs the user's mpirun; Open MPI hands its environment on to ranks, which sshd alone would not."""
    names = ";".join([*asked.variables(), *(name for name in ("LD_LIBRARY_PATH",) if name not in asked.env)])
    launcher = pod(asked, "launcher", env=[{"name": "OMPI_MCA_mca_base_env_list", "value": names}])
    launcher["containers"][0].pop("resources", None)
    spec = {
        "slotsPerWorker": max(1, asked.gpus),
        "sshAuthMountPath": "/home/mpiuser/.ssh",
        "runPolicy": {"cleanPodPolicy": "Running"},
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": {"spec": launcher}},
            "Worker": {"replicas": asked.nodes, "template": {"spec": pod(asked, "worker", command=SSHD)}},
        },
    }
    return [config_map(asked), made("kubeflow.org/v2beta1", "MPIJob", asked, spec)]


def jobset(asked: Asked) -> list[Json]:
    """One indexed Job; torchrun reads PET_ variables as its options."""
    env: list[Json] = [
        {"name": "PET_NNODES", "value": str(asked.nodes)},
        {"name": "PET_NPROC_PER_NODE", "value": str(max(1, asked.gpus))},
        {"name": "PET_NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": INDEX}}},
        {"name": "PET_MASTER_ADDR", "value": f"{asked.name}-node-0-0.{asked.name}"},
        {"name": "PET_MASTER_PORT", "value": str(PORT)},
    ]
    spec = {"network": {"enableDNSHostnames": True}, "replicatedJobs": [_replicated(asked, env)]}
    return [config_map(asked), made("jobset.x-k8s.io/v1alpha2", "JobSet", asked, spec)]


def trainjob(asked: Asked) -> list[Json]:
    """A runtime of its own, as what a TrainJob may change of another's differs from version to version."""
    node = _replicated(asked, [])
    node["template"]["metadata"] = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    for key in ("parallelism", "completions", "completionMode"):  # the controller's to say
        del node["template"]["spec"][key]
    runtime = {
        "mlPolicy": {"numNodes": asked.nodes, "torch": {}},
        "template": {"spec": {"replicatedJobs": [node]}},
    }
    job = {
        "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": asked.name},
        "trainer": {"numNodes": asked.nodes},
    }
    made_runtime = made("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", asked, runtime)
    made_runtime["metadata"]["labels"]["trainer.kubeflow.org/framework"] = "torch"
    return [config_map(asked), made_runtime, made("trainer.kubeflow.org/v1alpha1", "TrainJob", asked, job)]


def _replicated(asked: Asked, env: list[Json]) -> Json:
    spec = {
        "parallelism": asked.nodes,
        "completions": asked.nodes,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {"spec": pod(asked, "node", env=env)},
    }
    return {"name": "node", "replicas": 1, "template": {"spec": spec}}


def made(version: str, kind: str, asked: Asked, spec: Mapping[str, Any]) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": about(asked), "spec": dict(spec)}


JOBS: Mapping[str, Callable[[Asked], list[Json]]] = {"mpijob": mpijob, "jobset": jobset, "trainjob": trainjob}
