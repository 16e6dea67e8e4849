"""`verbs_error`, `lost_completion`, `slow_qp`, `async_event`: what they write, what proves them, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.experiment.file import loads
from chaos.faults.parts.shim import HEAD, LIBRARY, folder
from chaos.faults.registry import fault_of, kinds, spec_of
from chaos.faults.steps import Command
from harness.errors import InputErrors
from harness.hosts import Result
from harness.sites.site import PlannedNic

BED = [PlannedNic(f"h{h}", f"eth{n}", f"10.{n + 1}.0.{h + 1}", f"h{h}-eth{n}") for h in range(2) for n in range(2)]


def words(kind: str, **more: Any) -> dict[str, Any]:
    return {"id": "f0", "kind": kind, "at": {"iteration": 3}, "duration_s": 1.0, "nics": ["h1:eth1"], **more}


def fault(kind: str, *devices: str, **more: Any) -> Any:
    """It knows what its hosts said of their devices."""
    spec = spec_of(words(kind, **more))
    wanted = spec.targets({"h0": ["eth0", "eth1"], "h1": ["eth0", "eth1"]})
    made = fault_of(spec, [nic for nic in BED if (nic.host, nic.name) in wanted], "h1")
    return made.knowing([Result((), 0, said) for said in devices or ("mlx5_1\n",)])


@pytest.mark.parametrize(
    ("kind", "more", "line"),
    [
        ("verbs_error", {"status": "retry_exceeded"}, "error status=retry_exceeded"),
        (
            "verbs_error",
            {"status": "flushed", "opcode": "rdma_write", "peer": "10.2.0.1", "qp": 17, "skip": 5, "times": 2},
            "error status=flushed qp=17 peer=10.2.0.1 opcode=rdma_write skip=5 times=2",
        ),
        ("verbs_error", {"call": "reg_mr", "errno": "ENOMEM", "times": 1}, "fail call=reg_mr errno=12 times=1"),
        ("lost_completion", {}, "lost"),
        ("lost_completion", {"action": "late", "delay_ms": 20.0}, "late ms=20"),
        ("lost_completion", {"action": "duplicate"}, "duplicate"),
        ("slow_qp", {"delay_ms": 0.2, "per_s": 100}, "slow ms=1 per_s=100"),
        ("async_event", {"event": "port_err"}, "event name=port_err then=port_active"),
        ("async_event", {"event": "device_fatal", "port": 2}, "event name=device_fatal port=2"),
        ("async_event", {"event": "gid_change", "then": "gid_change"}, "event name=gid_change then=gid_change"),
    ],
)
def test_the_rules(kind: str, more: dict[str, Any], line: str) -> None:
    (step,) = fault(kind, **more).inject()
    assert isinstance(step, Command)
    assert (step.on, step.input) == ("h1", f"{HEAD}\nverbs mlx5_1 {line}\nend\n")
    assert step.argv[-1] == str(folder() / "f0-0")


def test_each_nic_has_the_device_that_its_host_named() -> None:
    steps = fault("slow_qp", "mlx5_0 mlx5_1\n", "rxe0\nrxe1\n", delay_ms=2.0, nics=["*:*"]).inject()
    assert [step.input.split("\n")[1:3] for step in steps] == [
        ["verbs mlx5_0 slow ms=2", "verbs mlx5_1 slow ms=2"],
        ["verbs rxe0 slow ms=2", "verbs rxe1 slow ms=2"],
    ]


@pytest.mark.parametrize("said", ["none\n", "", "mlx5_0 mlx5_1\n"])
def test_a_nic_without_a_device_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match="h1: not all of eth1 have an RDMA device"):
        fault("lost_completion", said)


@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [
        ("verbs_error", {}, "needs status, or call and errno"),
        ("verbs_error", {"status": "fatal", "call": "reg_mr", "errno": "ENOMEM"}, "needs status, or call and errno"),
        ("verbs_error", {"call": "reg_mr"}, "needs status, or call and errno"),
        ("verbs_error", {"call": "reg_mr", "errno": "EWHAT"}, "there is no errno EWHAT"),
        ("verbs_error", {"call": "post_send", "errno": "ENOMEM", "opcode": "send"}, "opcode belongs to status"),
        ("verbs_error", {"status": "tired"}, "retry_exceeded"),
        ("verbs_error", {"status": "fatal", "peer": "h0"}, "does not appear to be an IPv4 or IPv6 address"),
        ("lost_completion", {"action": "late"}, "delay_ms belongs to action: late"),
        ("lost_completion", {"delay_ms": 2.0}, "delay_ms belongs to action: late"),
        ("slow_qp", {}, "needs delay_ms or per_s"),
        ("async_event", {"event": "qp_fatal"}, "port_err"),
    ],
)
def test_wrong_settings_are_refused(kind: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spec_of(words(kind, **more))


RULES = f"{HEAD}\nverbs mlx5_1 lost\nend\n"
SEEN = "seen 7 b1\n"


@pytest.mark.parametrize(
    ("text", "active", "why"),
    [
        ("", False, f"no rank with {LIBRARY} saw the rules on h1"),
        (RULES + SEEN, None, "no completion of h1 eth1 matched"),
        (RULES + SEEN + "hit 7 mlx5_0 1 55\n", None, "no completion of h1 eth1 matched"),
        (RULES + SEEN + "hit 7 mlx5_1 3 55\n", True, ""),
    ],
)
def test_proof(text: str, active: bool | None, why: str) -> None:
    made, said = fault("lost_completion"), [Result((), 1, text)]
    assert made.is_active(said) is active
    assert made.why_not(said) == why


def test_a_device_that_a_rank_does_not_have_is_an_error() -> None:
    text = f"{RULES}refused 7 there is no RDMA device mlx5_1 here; there is none\n"
    with pytest.raises(ValueError, match="h1: a rank refuses the rules: there is no RDMA device mlx5_1 here"):
        fault("lost_completion").is_active([Result((), 1, text)])


@pytest.mark.parametrize("kind", ["verbs_error", "lost_completion", "slow_qp", "async_event", "qp_error"])
def test_a_job_over_sockets_notices_none_of_them(kind: str) -> None:
    def loaded(workload: str) -> list[str]:
        more = ", ".join(f"{key}: {value}" for key, value in kinds()[kind].example.items())
        text = f"""
            {{name: one, topology: {{hosts: 2, nics: 2}}, workload: {workload}, arms: {{migrate: {{expect: any}}}},
             faults: [{{id: f0, kind: {kind}, at: {{time_s: 1.0}}, duration_s: 1.0, nics: ["h1:eth1"], {more}}}]}}
        """
        try:
            loads(text, Path("one.yaml"))
        except InputErrors as error:
            return error.errors
        return []

    (told,) = loaded("{kind: bench}")
    assert f"{kind} breaks RDMA alone: it needs workload.net: ib" in told
    assert loaded("{kind: bench, net: ib}") == []
    assert loaded("{kind: collectives}") == [], "on GPUs NCCL chooses what it goes over"
