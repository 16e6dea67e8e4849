"""The DaemonSet whose pods break NICs for pods that must not: its manifest. Pure."""

from __future__ import annotations

from typing import Any

from chaos.deadman.record import shell_text
from harness.hosts.pods.target import AGENT_LABEL

Json = dict[str, Any]
GRACE_S = 120
"""In which an agent that is deleted undoes what is armed."""


def manifests(namespace: str, image: str, node_selector: dict[str, str]) -> list[Json]:
    """A namespace that allows privileged pods, and an agent on each node of `node_selector`; empty: on all."""
    key, _, name = AGENT_LABEL.partition("=")
    labels = {key: name}
    allowed = {"pod-security.kubernetes.io/enforce": "privileged"}
    agent = {
        "name": "agent",
        "image": image,
        "command": ["sh", "-c", shell_text("agent.sh")],
        "securityContext": {"privileged": True, "runAsUser": 0},
        "volumeMounts": [{"name": "run", "mountPath": "/run/r2cc"}],
    }
    pod = {
        "hostPID": True,
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": GRACE_S,
        "tolerations": [{"operator": "Exists"}],
        **({"nodeSelector": node_selector} if node_selector else {}),
        "containers": [agent],
        "volumes": [{"name": "run", "hostPath": {"path": "/run/r2cc", "type": "DirectoryOrCreate"}}],
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": allowed}},
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]
