"""`workload: {kind: inference}`: its settings, the servers' command lines, its lines, and what they come to."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pydantic import ValidationError

from chaos.analysis.figures import run_figures
from chaos.analysis.requests import silence_ms
from chaos.analysis.rundata import read_run
from chaos.analysis.verdict import run_checks
from chaos.experiment.model import Hypothesis
from harness.workloads.inference import keeper
from harness.workloads.inference.arrivals import Load, requests
from harness.workloads.kinds.inference import Inference
from harness.workloads.kinds.workload import Place, Programs
from harness.workloads.reading.served import ServedLines

PROGRAMS = Programs(Path("/b"), Path("/net.so"), Path("/nccl.so.2"), Path("/w/rank.py"), "python3")
MS = 1_000_000


def place(rank: int, ranks: int = 2) -> Place:
    return Place(PROGRAMS, ranks, "10.0.0.1:29500", rank, seed=7)


def kind(**settings: Any) -> Inference:
    return Inference.model_validate({"kind": "inference", **settings})


def server(rank: int, ranks: int = 2, **settings: Any) -> str:
    """What the keeper of a rank starts; all of them are started by the same words."""
    (command,) = {tuple(kind(**settings).command(place(each, ranks))) for each in range(ranks)}
    with mock.patch.dict(os.environ, {"RANK": f"{rank}"}):
        return " ".join(keeper.options([*command[command.index("--ranks") :]]).server)


def test_vllm_on_one_host_and_on_several() -> None:
    given = {"server": "vllm", "model": "m/llama", "gpus_per_rank": 4, "args": ["--max-model-len", "4096"]}
    first = "vllm serve m/llama --tensor-parallel-size {} --host 127.0.0.1 --port 8000 {}--max-model-len 4096"
    several = "--distributed-executor-backend mp --nnodes 2 --node-rank {} --master-addr 10.0.0.1 --master-port 29500 "
    assert server(0, 1, **given) == first.format(4, "")
    assert server(0, **given) == first.format(8, several.format(0))
    assert server(1, **given) == first.format(8, several.format(1) + "--headless ")


def test_vllm_is_given_the_patched_nccl() -> None:
    given = {"server": "vllm", "model": "m", "gpus_per_rank": 1, "preload": "nccl"}
    assert kind(**given).rank_env({}, place(1))["VLLM_NCCL_SO_PATH"] == "/nccl.so.2"
    assert "VLLM_NCCL_SO_PATH" not in kind(**{**given, "preload": "none"}).rank_env({}, place(1))


def test_sglang_on_one_host_and_on_several() -> None:
    given = {"server": "sglang", "model": "m", "port": 30000, "gpus_per_rank": 2}
    words = "python3 -m sglang.launch_server --model-path m --tp {} --host 127.0.0.1 --port 30000"
    assert server(0, 1, **given) == words.format(2)
    assert server(1, **given) == words.format(4) + " --dist-init-addr 10.0.0.1:29500 --nnodes 2 --node-rank 1"


def test_transformers_is_a_process_a_rank() -> None:
    program = "python3 /w/inference/transformers_server.py --port 8000"
    assert server(1) == program
    assert server(1, model="m", args=["--dtype", "bfloat16"]) == f"{program} --model m --dtype bfloat16"


def test_a_command_of_ones_own() -> None:
    assert server(1, server="command", argv=["serve", "--", "x", "--"]) == "serve -- x --"
    assert server(1, server="command", argv=["serve", "--x"]) == "serve --x"
    assert kind(server="command", argv=["serve"], port=9000).rank_env({}, place(1))["PORT"] == "9000"


def test_all_that_is_asked_for_stands_in_the_command() -> None:
    command = kind(iterations=5, prompt_tokens=[8, 16], output_tokens=4).command(place(0))
    load = Load.of(json.loads(command[command.index("--load") + 1]))
    assert (load.requests, load.seed, load.prompt_tokens, load.output_tokens) == (5, 7, (8, 16), (4, 4))
    assert command[command.index("r2cc") + 2 : command.index("--load")] == [
        "python3", "/w/inference/keeper.py", "--ranks", "2", "--root", "10.0.0.1:29500",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"server": "vllm"}, "server: vllm needs a model"),
        ({"server": "command"}, "argv is the program of server: command"),
        ({"argv": ["x"]}, "argv is the program of server: command"),
        ({"prompt_tokens": [9, 8]}, "prompt_tokens: the smaller length comes first"),
        ({"rate": 0}, "greater than 0"),
        ({"server": "tgi"}, "'transformers', 'vllm', 'sglang' or 'command'"),
    ],
)
def test_what_cannot_be_is_said(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        kind(**settings)


def test_vllm_is_one_process_a_host() -> None:
    problems = dict(kind(server="vllm", model="m", ranks_per_host=2).problems(2))
    assert problems == {"ranks_per_host": "vllm is one process a host: say gpus_per_rank"}


def load(**changes: Any) -> Load:
    given = {"requests": 4000, "rate": 50.0, "prompt_tokens": (4, 9), "output_tokens": (3, 3), "vocabulary": 20,
             "warmup": 2, "seed": 1, "seconds": 0, "request_s": 1, "start_s": 1, "port": 1,
             "tokens": "usual"}  # fmt: skip
    return Load(**{**given, **changes})


def test_arrivals_are_a_poisson_process_and_come_again() -> None:
    every = list(requests(load()))
    assert every == list(requests(load()))
    assert [each.index for each in every[:4]] == [-2, -1, 0, 1]
    measured = every[2:]
    gaps = [after.at_s - before.at_s for before, after in pairwise(measured)]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert (mean, deviation) == pytest.approx((0.02, 0.02), rel=0.06), "an exponential's deviation is its mean"
    assert {len(each.prompt) for each in every} == set(range(4, 10))
    assert all(3 <= token < 20 for each in every for token in each.prompt)


def test_arrivals_end_with_the_time() -> None:
    assert max(each.at_s for each in requests(load(seconds=10.0))) <= 10.0


def test_lines_of_ours_are_found_amid_what_the_server_prints() -> None:
    made = ServedLines(3)
    said = [b"INFO loading", b'10%|##{"t_ns":5,"event":"nic","nic":"eth0"}', b"x R2CC: NIC eth0 is down", b""]
    lines = list(made.read([*said, b'{"event":"progress","t_ns":6,"rank":3,"index":0}'], 99))
    assert [(line["event"], line["t_ns"], line.get("rank")) for line in lines if isinstance(line, dict)] == [
        ("nic", 5, 3), ("log", 99, None), ("progress", 6, 3),
    ]  # fmt: skip
    assert [made.own_time(line) for line in lines if isinstance(line, dict)] == [True, False, True]
    assert made.quoted() == "INFO loading"


def run() -> list[dict[str, Any]]:
    """Three requests of four tokens, one second apart, the first at 0; the third fails; it asked for 10."""
    common = {"host": "h0", "arm": "stock", "run": 0, "rank": 0}
    lines: list[dict[str, Any]] = [
        {"event": "bench_start", "t_ns": 0, "op": "inference", "bytes": 0, "ranks": 2, "channels": 0, "nics": [],
         "connections": []},
    ]  # fmt: skip
    for index, gaps in ((0, [10.0, 10.0, 10.0]), (1, [10.0, 70.0, 10.0])):
        start = index * 1000 * MS
        lines += [
            {"event": "progress", "t_ns": start, "index": index, "start_ns": start},
            {"event": "iteration", "t_ns": start, "index": index, "start_ns": start, "bytes": 0, "wrong_elements": 0,
             "end_ns": start + round((20 + sum(gaps)) * MS), "ttft_ms": 20.0, "gaps_ms": gaps, "tokens": 4,
             "prompt_tokens": 6},
        ]  # fmt: skip
    lines += [
        {"event": "progress", "t_ns": 2, "index": 2, "start_ns": 2000 * MS},
        {"event": "request_failed", "t_ns": 3, "index": 2, "start_ns": 2000 * MS, "message": "HTTP 500"},
        {"event": "bench_end", "t_ns": 4, "completed": 3, "wrong_elements": 0, "max_rss_bytes": 0, "cpu_s": 0.0},
        {"event": "run_end", "t_ns": 5, "exit_codes": {"rank0": 0}, "outcome": "finished", "reason": None},
    ]
    return [{**common, **line} for line in lines]


def test_figures_are_those_of_vllms_and_sglangs_benchmarks() -> None:
    found = run_figures(read_run(run()), 0, iterations=3)
    named = {metric.name: metric.value for metric in found.metrics}
    assert named["ttft_all_p50"] == 20.0
    assert (named["tpot_all_p50"], named["tpot_all_p99"]) == (20.0, 29.8)  # 30/3 and 90/3
    assert (named["itl_all_p50"], named["longest_token_gap"]) == (10.0, 70.0)
    assert named["longest_silence"] == 70.0
    assert (named["e2el_all_p50"], named["requests"], named["failed_requests"]) == (80.0, 3, 1)
    seconds = 1.110  # from the first request to the last answer
    assert named["request_throughput"] == pytest.approx(2 / seconds, abs=1e-4)
    assert named["output_throughput"] == pytest.approx(8 / seconds, abs=1e-4)
    assert named["total_throughput"] == pytest.approx(20 / seconds, abs=1e-4)
    assert (found.completed, found.errors) == (False, ["h0: request 2 failed: HTTP 500"])
    assert found.void == [], "requests vary by nature"


@pytest.mark.parametrize(("onset", "reverted", "hit"), [(20, 30, 0), (500, 1500, 1), (500, 600, None), (2000, 2100, 2)])
def test_a_fault_hits_the_requests_that_are_sent_while_it_lasts(onset: int, reverted: int, hit: int | None) -> None:
    common = {"host": "h1", "arm": "stock", "run": 0, "event": "fault", "id": "f", "kind": "link_down", "nic": "eth0"}
    lines = [
        {**common, "phase": "injected", "t_ns": onset * MS, "before_ns": onset * MS},
        {**common, "phase": "reverted", "t_ns": reverted * MS, "before_ns": reverted * MS},
    ]
    (fault,) = run_figures(read_run([*run(), *lines]), 0, iterations=3).faults
    assert (fault.at_iteration, fault.hit) == (hit, hit is not None)


def answer(start: int, ttft: int, *gaps: int) -> dict[str, Any]:
    end = start + ttft + sum(gaps)
    return {"start_ns": start * MS, "end_ns": end * MS, "ttft_ms": ttft, "gaps_ms": list(gaps)}


@pytest.mark.parametrize(
    ("answers", "silence"),
    [
        ([answer(0, 10, 5, 5), answer(1000, 10, 5)], 10.0),  # nothing under way between them
        ([answer(0, 10, 300, 5)], 300.0),
        ([answer(0, 10, 5), answer(20, 500, 5)], 500.0),  # it struck while a prompt was read
        ([answer(0, 10, 300, 5), answer(50, 10, 5)], 245.0),  # the other stream went on for a while
        ([], None),
    ],
)
def test_silence_is_of_all_streams(answers: list[dict[str, Any]], silence: float | None) -> None:
    assert silence_ms(answers) == silence


def test_failed_requests_and_gaps_are_judged() -> None:
    found = run_figures(read_run(run()), 0, iterations=3)
    hypothesis = Hypothesis(completes=False, failed_requests_max=0, longest_gap_ms_max=80.0)
    checks = {check.name: (check.outcome, check.value) for check in run_checks(found, hypothesis, 0)}
    assert checks == {
        "failed_requests": ("deviated", 1), "longest_token_gap": ("holds", 70.0),
        "longest_silence": ("holds", 70.0),
    }  # fmt: skip
