"""The DaemonSet that gives Prometheus what the jobs of its node say of themselves (docs/howto/watch.md). Pure."""

from __future__ import annotations

from typing import Any

from harness.kubernetes.pod import NOBODY, RUNTIME_DEFAULT, locked

Json = dict[str, Any]
NAME = "r2cc-metrics"


def manifests(namespace: str, image: str, status: str, port: int, node_selector: dict[str, str]) -> list[Json]:
    """`status`: the node's folder, which is made once a boot, so that every job may write there; none but root may
    remove what is another's. The server only reads it, as nobody."""
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "r2cc"}
    mounted = {"name": "status", "mountPath": status}
    opens = {
        "name": "folder",
        "image": image,
        "command": ["chmod", "1777", status],
        "securityContext": {**locked(), "runAsUser": 0, "readOnlyRootFilesystem": True},
        "volumeMounts": [mounted],
    }
    serves = {
        "name": "metrics",
        "image": image,
        "command": ["r2cc", "metrics", "--status", status, "--listen", str(port)],
        "ports": [{"name": "metrics", "containerPort": port}],
        "securityContext": {**locked(), "runAsUser": NOBODY, "runAsNonRoot": True, "readOnlyRootFilesystem": True},
        "volumeMounts": [{**mounted, "readOnly": True}],
    }
    pod = {
        "automountServiceAccountToken": False,
        "securityContext": {"seccompProfile": RUNTIME_DEFAULT},
        "tolerations": [{"operator": "Exists"}],
        **({"nodeSelector": node_selector} if node_selector else {}),
        "initContainers": [opens],
        "containers": [serves],
        "volumes": [{"name": "status", "hostPath": {"path": status, "type": "DirectoryOrCreate"}}],
    }
    asked = {"prometheus.io/scrape": "true", "prometheus.io/port": str(port)}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": NAME, "namespace": namespace, "labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels, "annotations": asked}, "spec": pod},
            },
        }
    ]
