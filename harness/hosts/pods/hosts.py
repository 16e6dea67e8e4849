"""A pod as a host, and the agent on its node, which breaks its NICs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from harness.errors import InfraError, ReachError
from harness.hosts.base import Argv, Env
from harness.hosts.pods.command import Executed, lost
from harness.hosts.pods.target import Placed, PodTarget, agents
from harness.hosts.remote import RemoteHost, Running

ASK_S = 30.0
ENTER = (
    'net=$(find /proc -mindepth 3 -maxdepth 3 -path "*/ns/net" -lname "$1" -print -quit 2>/dev/null); shift; '
    '[ -n "$net" ] || { echo "r2cc: the network of the pod is not on this node any more" >&2; exit 125; }; '
    'exec nsenter --net="$net" -- "$@"'
)
"""A fixed script of the agent, who sees all processes of its node: the command runs in the network of the pod, which is
known by its number, and in nothing else of it. What it leaves running there outlives the pod."""


@dataclass(frozen=True)
class PodHost(RemoteHost):
    """A container. Each command is a `kubectl exec` of its own."""

    name: str
    target: PodTarget

    def _start(self, argv: Argv, env: Env) -> Running:
        return Executed(self.target, argv, env)

    def lost(self, why: str = "") -> ReachError:
        return lost(self.target, why)


@dataclass(frozen=True)
class AgentHost(PodHost):
    """The network of `pod`, as root of its node: the agent runs the commands."""

    pod: PodHost

    def _start(self, argv: Argv, env: Env) -> Running:
        return Executed(self.target, ["sh", "-c", ENTER, "r2cc-enter", self._network, *argv], env)

    @cached_property
    def _network(self) -> str:
        """As a pattern of `find`."""
        said = self.pod.run(["readlink", "/proc/self/ns/net"], timeout_s=ASK_S).stdout.strip()
        if not said.startswith("net:["):
            raise InfraError(f"{self.name}: its network is not known: {said!r}", "its image needs readlink (coreutils)")
        return said.replace("[", "\\[").replace("]", "\\]")


def pod_hosts(targets: Iterable[PodTarget]) -> dict[str, PodHost]:
    """By name. Nobody is asked yet."""
    return {target.name: PodHost(target.name, target) for target in targets}


def breakers(pods: Mapping[str, PodHost], places: Mapping[str, Placed]) -> dict[str, PodHost]:
    """Who breaks the NICs of each: its agent, or, in an inventory without agents, itself. PodError as `agents`."""
    with_agent = [pod.target for pod in pods.values() if pod.target.agents]
    found = agents(with_agent, places)
    return {name: AgentHost(name, found[name], pod) if name in found else pod for name, pod in pods.items()}
