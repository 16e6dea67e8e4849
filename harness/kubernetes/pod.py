"""A pod that uses the net plugin: an init container brings it, a ConfigMap has its settings, nobody is root."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.errors import InputErrors

Json = dict[str, Any]
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?")
"""RFC 1123, with room for what controllers put behind a job's name."""
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
IMAGE = re.compile(r"[^\s'\"]+")
FOLDER = re.compile(r"(/[A-Za-z0-9._-]+)+")
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?([EPTGMk]i?|m)?")
PLUGIN = "/r2cc"
LIBRARY = f"{PLUGIN}/libr2cc_net.so"
NOBODY = 65534
RUNTIME_DEFAULT: Json = {"type": "RuntimeDefault"}


@dataclass(frozen=True)
class Asked:
    """What the user says of a job. `resources` beside GPUs, as `rdma/hca: 1`; `status` and `control` are folders of the
    node (docs/howto/watch.md), empty: none."""

    name: str
    namespace: str
    image: str
    plugin_image: str
    command: Sequence[str]
    nodes: int
    gpus: int = 8
    mode: int = 2
    user: int = 1000
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    host_network: bool = False
    shm: str = "16Gi"
    status: str = ""
    control: str = ""

    def __post_init__(self) -> None:
        """InputErrors with all that cannot be."""
        errors = [
            f"{what} '{value}' cannot be: {why}"
            for what, value, pattern, why in (
                ("--name", self.name, NAME, "small letters, digits and '-', at most 42"),
                ("--namespace", self.namespace, NAME, "small letters, digits and '-'"),
                ("--image", self.image, IMAGE, "it is the name of an image"),
                ("--plugin-image", self.plugin_image, IMAGE, "it is the name of an image"),
                ("--shm", self.shm, QUANTITY, "it is an amount as 16Gi"),
                *(("--env", name, VARIABLE, "it is the name of a variable") for name in self.env),
                *(("--resource", value, QUANTITY, "it is an amount as 1") for value in self.resources.values()),
                *((option, folder, FOLDER, "it is a folder of the node, as /run/r2cc-status") for option, folder in (
                    ("--status", self.status), ("--control", self.control)) if folder),
            )
            if not pattern.fullmatch(value)
        ]  # fmt: skip
        if not self.command:
            errors.append("no program is named: write it behind `--`, as in `-- torchrun train.py`")
        if self.user == 0:
            errors.append("--user 0 is root, which no pod of a job needs")
        if errors:
            raise InputErrors(errors)

    @property
    def settings(self) -> str:
        """The name of the ConfigMap."""
        return f"{self.name}-r2cc"

    def variables(self) -> dict[str, str]:
        """What the ConfigMap holds: of R2CC, then what the user adds."""
        found = {"NCCL_NET_PLUGIN": LIBRARY, "R2CC_MODE": str(self.mode), "R2CC_JOB": self.name}
        found |= {"R2CC_STATUS_DIR": self.status} if self.status else {}
        found |= {"R2CC_CONTROL_DIR": self.control} if self.control else {}
        return {**found, **self.env}


def about(asked: Asked, name: str | None = None) -> Json:
    """`metadata` of everything that is rendered."""
    labels = {"app.kubernetes.io/name": asked.name, "app.kubernetes.io/part-of": "r2cc"}
    return {"name": name or asked.name, "namespace": asked.namespace, "labels": labels}


def config_map(asked: Asked) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": about(asked, asked.settings),
        "data": asked.variables(),
    }


def pod(asked: Asked, container: str, *, command: Sequence[str] | None = None, env: Sequence[Json] = ()) -> Json:
    """The `spec` of a pod with GPUs. `command`: instead of the user's; none: the image's own."""
    words = asked.command if command is None else command
    limits = {**({"nvidia.com/gpu": str(asked.gpus)} if asked.gpus else {}), **asked.resources}
    return {
        "restartPolicy": "Never",
        **({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"} if asked.host_network else {}),
        "securityContext": {"runAsNonRoot": True, "runAsUser": asked.user, "fsGroup": asked.user,
                            "seccompProfile": RUNTIME_DEFAULT},
        "initContainers": [init_container(asked)],
        "containers": [
            {
                "name": container,
                "image": asked.image,
                **({"command": [*words]} if words else {}),
                "envFrom": [{"configMapRef": {"name": asked.settings}}],
                **({"env": [*env]} if env else {}),
                **({"resources": {"limits": limits}} if limits else {}),
                "securityContext": locked(*(["IPC_LOCK"] if rdma(asked) else [])),
                "volumeMounts": [
                    {"name": "r2cc", "mountPath": PLUGIN, "readOnly": True},
                    {"name": "shm", "mountPath": "/dev/shm"},
                    *({"name": name, "mountPath": folder, **({"readOnly": True} if name == "control" else {})}
                      for name, folder in folders(asked)),
                ],
            }
        ],
        "volumes": volumes(asked),
    }  # fmt: skip


def rdma(asked: Asked) -> bool:
    """Registered memory is locked: RLIMIT_MEMLOCK in containers is small."""
    return any("rdma" in name or "hca" in name or "infiniband" in name for name in asked.resources)


def init_container(asked: Asked) -> Json:
    """It copies the libraries: a newer image never changes a file that a job has mapped."""
    return {
        "name": "r2cc-plugin",
        "image": asked.plugin_image,
        "command": ["r2cc-copy-plugin", PLUGIN],
        "securityContext": {**locked(), "runAsUser": NOBODY, "readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": "r2cc", "mountPath": PLUGIN}],
    }


def locked(*capabilities: str) -> Json:
    """A container without any right but those named."""
    added = {"add": [*capabilities]} if capabilities else {}
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], **added}}


def folders(asked: Asked) -> list[tuple[str, str]]:
    """Folders of the node that the pod sees, each with the name of its volume."""
    return [(name, folder) for name, folder in (("status", asked.status), ("control", asked.control)) if folder]


def volumes(asked: Asked) -> list[Json]:
    return [
        {"name": "r2cc", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": asked.shm}},
        *({"name": name, "hostPath": {"path": folder, "type": "Directory"}} for name, folder in folders(asked)),
    ]
