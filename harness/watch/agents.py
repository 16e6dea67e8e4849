"""A host's health in the words of the agents that drain nodes. Each form is ours; what reads it is in
docs/howto/watch.md."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from harness.watch.health import FAILED, VERDICTS, Health

AGENTS = ("slurm", "npd", "condition", "nvsentinel", "nvrx")
LONGEST = 80
"""characters that node-problem-detector keeps of a message"""
CHECK = "r2cc-net"
REASONS = {
    "healthy": "Healthy", "unknown": "NothingRead", "carried": "CarriedByR2cc", "held": "Held", "lost": "Lost"
}  # fmt: skip
"""Of a Kubernetes node's condition, which is neither true nor false where nothing is known."""


def is_problem(health: Health, from_: str) -> bool:
    """Of this host: connections are held and lost at both ends, also where it is the other one that died."""
    reached = VERDICTS.index(health.verdict) >= VERDICTS.index(from_)
    return reached and any(nic.state in FAILED for nic in health.nics)


def rendered(health: Health, agent: str, node: str, from_: str, now: datetime | None = None) -> tuple[str, int]:
    """What is printed, and the exit code that this agent understands. `from_`: the least verdict that is a problem."""
    now = now or datetime.now(UTC)
    problem = is_problem(health, from_)
    if agent == "condition":
        return json.dumps(_condition(health, problem, now)), 0
    if agent == "nvsentinel":
        return json.dumps(_event(health, problem, node, now)), 0
    if agent == "nvrx":
        return json.dumps({"failed_checks": [f"{CHECK}-{health.verdict}"] if problem else []}), 0
    text = f"R2CC {health.verdict}: {health.message}"
    return (text[:LONGEST] if agent == "npd" else text), 1 if problem else 0


def _condition(health: Health, problem: bool, now: datetime) -> dict[str, Any]:
    """The patch of a node's status: Kubernetes merges conditions by their type."""
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": "R2ccNetworkProblem",
        "status": "True" if problem else "Unknown" if health.verdict == "unknown" else "False",
        "reason": REASONS[health.verdict],
        "message": health.message,
        "lastHeartbeatTime": at,
    }
    return {"status": {"conditions": [condition]}}


def _event(health: Health, problem: bool, node: str, now: datetime) -> dict[str, Any]:
    """A health event with the keys that NVSentinel's have. Fatal there means that the workload fails: what is carried
    is not."""
    failed = [nic for nic in health.nics if nic.state in FAILED]
    return {
        "version": 1,
        "agent": "r2cc",
        "componentClass": "NIC",
        "checkName": CHECK,
        "isHealthy": not problem,
        "isFatal": problem and health.verdict in ("held", "lost"),
        "recommendedAction": "CONTACT_SUPPORT" if problem and health.verdict in ("held", "lost") else "NONE",
        "message": health.message,
        "entitiesImpacted": [{"entityType": "NIC", "entityValue": nic.device} for nic in failed],
        "generatedTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "nodeName": node,
    }
