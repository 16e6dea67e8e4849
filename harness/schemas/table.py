"""Which schema each command's JSON has, and each file's: the tables of docs/reference/json.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

PRINTED: Mapping[str, tuple[str, ...]] = {
    "build nccl": ("build",),
    "build nccl-tests": ("build_nccl_tests",),
    "build net": ("build",),
    "chaos campaign": ("campaign_result", "campaign_plan"),
    "chaos faults": ("faults",),
    "chaos run": ("summary", "suite", "run_plan"),
    "chaos soak": ("soak",),
    "chaos validate": ("validated",),
    "ci baseline record": ("baseline_recorded",),
    "ci baseline show": ("baseline",),
    "ci gate": ("ci_gate",),
    "ci turns": ("ci_gate",),
    "compare": ("compare",),
    "deploy": ("deploy", "deploy_plan", "deploy_list"),
    "doctor": ("doctor",),
    "fork fetch": ("fork",),
    "fork patch": ("fork",),
    "fork refresh": ("fork_refresh",),
    "fork status": ("fork",),
    "hosts check": ("hosts_check",),
    "hosts list": ("hosts",),
    "inventory from-cloudlab": ("inventory_made",),
    "lab down": ("lab_down",),
    "lab status": ("lab_status",),
    "lab up": ("lab_up",),
    "panic": ("panic",),
    "plan": ("plan",),
    "report": ("summary",),
    "run bench": ("job", "job_plan"),
    "run collectives": ("job", "job_plan"),
    "run ddp": ("job", "job_plan"),
    "run decode": ("job", "job_plan"),
    "run graphs": ("job", "job_plan"),
    "run lifecycle": ("job", "job_plan"),
    "run megatron": ("job", "job_plan"),
    "run nccl-tests": ("nccl_tests", "job_plan"),
    "runs export": ("runs_exported",),
    "runs import": ("runs_imported",),
    "runs list": ("runs",),
    "runs prune": ("runs_pruned",),
    "runs show": ("run",),
    "runs tag": ("run",),
    "serve": ("serve",),
    "sim faults": ("sim_faults",),
    "sim run": ("simulation", "sim_plan"),
    "sim sweep": ("simulation", "sim_plan"),
    "sim validate": ("sim_validate",),
    "trace": ("trace",),
}
"""Of `--json` of every command; several where it does several things (--dry-run, --list, a folder of experiments)."""

WRITTEN: Mapping[str, str] = {
    "a run's summary.json": "summary",
    "a run's environment.json": "environment",
    "a run's tags.json": "tags",
    "a line of a run's journal.jsonl": "journal",
    "campaign.json": "campaign",
    "soak.json": "soak",
    "a simulation's simulation.json": "simulation",
    "a simulation's sweep.json": "sim_begun",
    "a simulation's cells/*.json": "sim_cell",
    "a line of a trace of simulated faults": "sim_trace",
    "ci gate --out, ci turns --out": "ci_gate",
    "build/*/build.json": "build_json",
    "nccl_fork/tree/.r2cc-state.json": "fork_state",
    "the lab's places of NICs": "places",
    "the first line of a flight recorder's dump": "trace_dump",
}

READ: Mapping[str, str] = {
    "an experiment": "experiment",
    "an inventory": "inventory",
    "a lab's topology": "topology",
    "an experiment of the simulator": "sim_experiment",
    "a simulated network": "sim_topology",
    "a policy of the gate": "ci_policy",
    "a request to the planner": "plan_request",
}


def markdown() -> str:
    """The tables of docs/reference/json.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from ("| `--json` of | schema |", "|---|---|")
    yield from (f"| `r2cc {command}` | {', '.join(map(_link, names))} |" for command, names in PRINTED.items())
    yield from ("", "| written | schema |", "|---|---|")
    yield from (f"| {what} | {_link(name)} |" for what, name in WRITTEN.items())
    yield from ("", "| read | schema |", "|---|---|")
    yield from (f"| {what} | {_link(name)} |" for what, name in READ.items())


def _link(name: str) -> str:
    return f"[{name}](../../harness/schemas/{name}.schema.json)"
