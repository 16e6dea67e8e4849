"""Which container of which pod a host is, and what the cluster says of it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import PodError

AGENT_LABEL = "app.kubernetes.io/name=r2cc-agent"
"""Of the pods that break NICs, one a node (`r2cc k8s render agent`)."""
LIMIT_S = 60.0
REFUSED = re.compile(r"Forbidden|Unauthorized|must be logged in|forbidden:")


@dataclass(frozen=True)
class PodTarget:
    """`kubectl` takes the rest from the user's kubeconfig. An empty container: the pod's default."""

    name: str
    pod: str
    namespace: str
    container: str = ""
    context: str = ""
    agents: str = ""
    """The namespace of those that break NICs; empty: there are none, and what is broken is broken in the pod itself."""

    @property
    def shown(self) -> str:
        inside = f" ({self.container})" if self.container else ""
        return f"pod {self.namespace}/{self.pod}{inside}"

    def kubectl(self, *words: str) -> list[str]:
        context = ["--context", self.context] if self.context else []
        return ["kubectl", *context, "--namespace", self.namespace, *words]

    def exec(self, argv: Sequence[str]) -> list[str]:
        container = ["--container", self.container] if self.container else []
        return [*self.kubectl("exec", "--stdin", "--quiet"), *container, self.pod, "--", *argv]


@dataclass(frozen=True)
class Placed:
    """Where a pod is. Addresses are IPv4 or IPv6."""

    node: str
    node_address: str
    address: str


def placed(targets: Iterable[PodTarget]) -> dict[str, Placed]:
    """Of each host. PodError naming all pods that do not run."""
    every = [*targets]
    found: dict[tuple[str, str], Placed] = {}
    for context, namespace in dict.fromkeys((each.context, each.namespace) for each in every):
        one = PodTarget("", "", namespace, context=context)
        names = {each.pod for each in every if (each.context, each.namespace) == (context, namespace)}
        pods = _asked(one, "get", "pods", "--output", "json")
        found |= {(context, name): place for name, place in pods.items() if name in names}
    absent = [each for each in every if (each.context, each.pod) not in found]
    if absent:
        raise PodError(
            "unreachable",
            "\n".join(f"{each.name}: {each.shown} does not run" for each in absent),
            f"kubectl get pods --namespace {absent[0].namespace}",
        )
    return {each.name: found[each.context, each.pod] for each in every}


def agents(targets: Iterable[PodTarget], places: Mapping[str, Placed]) -> dict[str, PodTarget]:
    """The agent on the node of each host. PodError naming the hosts whose node has none."""
    every, found = [*targets], dict[tuple[str, str, str], str]()
    for context, namespace in dict.fromkeys((each.context, each.agents) for each in every):
        one = PodTarget("", "", namespace, context=context)
        pods = _asked(one, "get", "pods", "--selector", AGENT_LABEL, "--output", "json")
        found |= {(context, namespace, place.node): pod for pod, place in pods.items()}
    without = [each for each in every if (each.context, each.agents, places[each.name].node) not in found]
    if without:
        raise PodError(
            "unreachable",
            "\n".join(f"{each.name}: no agent runs on its node {places[each.name].node}" for each in without),
            f"r2cc k8s render agent --namespace {without[0].agents} --image IMAGE | kubectl apply --filename -",
        )
    return {
        each.name: PodTarget(
            each.name, found[each.context, each.agents, places[each.name].node], each.agents, context=each.context
        )
        for each in every
    }


def running(text: str) -> dict[str, Placed]:
    """Of what `kubectl get pods -o json` prints: pods that run. ValueError or KeyError for other text."""
    found = json.loads(text)
    items: list[Mapping[str, Any]] = found.get("items", [found])
    return {
        str(pod["metadata"]["name"]): Placed(
            str(pod["spec"].get("nodeName", "")),
            str(pod["status"].get("hostIP", "")),
            str(pod["status"].get("podIP", "")),
        )
        for pod in items
        if pod.get("status", {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    }


def _asked(target: PodTarget, *words: str) -> dict[str, Placed]:
    argv = target.kubectl(*words)
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False)
    except FileNotFoundError as error:
        raise no_kubectl() from error
    except subprocess.TimeoutExpired as error:
        raise PodError("unreachable", f"kubectl did not answer within {LIMIT_S:g} s", "kubectl cluster-info") from error
    if done.returncode != 0:
        raise failed(f"namespace {target.namespace}", done.stderr.decode(errors="replace"))
    try:
        return running(done.stdout.decode(errors="replace"))
    except (ValueError, KeyError, TypeError) as error:
        raise PodError("unreachable", f"kubectl says of its pods what is no list of pods: {error}") from error


def no_kubectl() -> PodError:
    return PodError("unreachable", "there is no kubectl on this machine", "install it: these hosts are pods")


def failed(what: str, said: str) -> PodError:
    """What kubectl says on stderr when it reaches nobody, or may not."""
    last = said.strip().splitlines()[-1:] or ["kubectl says not why"]
    if REFUSED.search(said):
        return PodError("auth", f"{what}: {last[0]}", "you need `get pods` and `create pods/exec` in this namespace")
    return PodError("unreachable", f"{what}: {last[0]}", "kubectl get pods; is the context right?")
