"""The keeper of a server of inference, beside the stand-in: what it prints, how it ends, and that nothing stays."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ports import free_port, free_root
from waits import LIMIT_S, until

ROOT = Path(__file__).parents[2]
KEEPER = ROOT / "harness" / "workloads" / "inference" / "keeper.py"
STANDIN = ROOT / "tests" / "data" / "inference" / "standin.py"
LOAD: dict[str, Any] = {
    "requests": 6, "warmup": 1, "rate": 100.0, "prompt_tokens": [4, 8], "output_tokens": [5, 5], "vocabulary": 50,
    "seed": 3, "seconds": 0, "request_s": 30.0, "start_s": 60.0, "tokens": "usual",
}  # fmt: skip


def started(
    trouble: str = "", *, rank: int = 0, ranks: int = 1, root: str = "", port: int | None = None,
    server: tuple[str, ...] = (), **changes: Any,
) -> subprocess.Popen[str]:  # fmt: skip
    port = port or free_port()
    load = json.dumps({**LOAD, **changes, "port": port})
    argv = server or (sys.executable, str(STANDIN), "--token-ms", "1", "--trouble", trouble)
    words = ["--ranks", f"{ranks}", "--root", root or free_root(), "--load", load, "--", *argv]
    env = {**os.environ, "RANK": f"{rank}", "PORT": f"{port}"}
    return subprocess.Popen([sys.executable, str(KEEPER), *words], env=env, stdout=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, list[dict[str, Any]], str]:
    """(exit code, lines of ours, the last line)."""
    said = process.communicate(timeout=100)[0].splitlines()
    lines = [json.loads(line) for line in said if line.startswith('{"event":')]
    (pid,) = [line["pid"] for line in lines if line["event"] == "rank_pid"] or [0]
    assert not pid or not Path(f"/proc/{pid}").exists(), "the server has ended"
    return process.returncode, lines, said[-1]


def of(lines: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["event"] == event]


def test_every_request_is_sent_and_timed_token_by_token() -> None:
    code, lines, _ = ended(started())
    assert code == 0
    assert [line["index"] for line in of(lines, "progress")] == list(range(6))
    assert sorted(line["index"] for line in of(lines, "iteration")) == list(range(6)), "warm-up is not measured"
    for line in of(lines, "iteration"):
        whole_ms = (line["end_ns"] - line["start_ns"]) / 1e6
        assert (line["tokens"], len(line["gaps_ms"])) == (5, 4)
        assert line["ttft_ms"] + sum(line["gaps_ms"]) == pytest.approx(whole_ms, abs=0.01)
    assert of(lines, "bench_start")[0]["op"] == "inference"
    assert of(lines, "bench_end")[0]["completed"] == 6


def test_the_same_seed_gives_the_same_answers() -> None:
    first, second = (ended(started())[1] for _ in range(2))
    results = [{line["index"]: line["result"] for line in of(lines, "iteration")} for lines in (first, second)]
    assert results[0] == results[1]
    assert len(set(results[0].values())) > 1


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        ("http_500@3", "HTTP 500: {\"error\": {\"message\": \"out of memory\"}}"),
        ("no_stream@3", "no stream: {\"choices\""),
        ("no_json@3", "no JSON of a completion: {torn"),
        ("aborts@3", "the server broke the answer off: finish_reason abort"),
        ("error@3", "the server: {\"message\": \"preempted\"}"),
        ("closes@3", "the connection was closed in the middle of the answer"),
        ("never_ends@3", "no whole answer in 5 s"),
    ],
)  # fmt: skip
def test_a_request_that_fails_is_one_and_says_why(trouble: str, why: str) -> None:
    code, lines, _ = ended(started(trouble, request_s=5.0 if trouble == "never_ends@3" else 30.0))
    assert code == 0
    (failed,) = of(lines, "request_failed")
    assert failed["message"].startswith(why)
    assert len(of(lines, "iteration")) == 5
    assert of(lines, "bench_end")[0]["completed"] == 6


@pytest.mark.parametrize(
    ("like", "tokens", "timed"),
    [
        ("openai", "usual", 5),  # the chunk that says why the text ends has no token
        ("vllm", "all", 5),  # it has the last token, whose text may be empty, as that of the token before may be
        ("sglang", "with_text", 3),
    ],
)
def test_a_token_is_what_the_servers_own_benchmark_takes_for_one(like: str, tokens: str, timed: int) -> None:
    program = (sys.executable, str(STANDIN), "--token-ms", "1", "--like", like)
    code, lines, _ = ended(started(server=program, tokens=tokens))
    assert code == 0
    found = of(lines, "iteration")
    assert {(line["tokens"], len(line["gaps_ms"]) + 1) for line in found} == {(5, timed)}
    if like != "openai":
        return
    plain = of(ended(started())[1], "iteration")
    assert {line["index"]: line["result"] for line in found} == {line["index"]: line["result"] for line in plain}


def test_letters_and_lines_may_be_cut_anywhere() -> None:
    """Of HTTP's chunks and TCP's pieces none ends where a letter or a line does."""
    texts = []
    for cut in ((), ("--pieces", "1"), ("--pieces", "7")):
        program = (sys.executable, str(STANDIN), "--token-ms", "1", "--text", "né 漢 🙂", *cut)
        code, lines, _ = ended(started(server=program))
        assert (code, len(of(lines, "iteration"))) == (0, 6), lines
        texts.append({line["index"]: (line["result"], line["tokens"]) for line in of(lines, "iteration")})
    assert texts[0] == texts[1] == texts[2]


def test_one_that_names_its_model_while_it_warms_up_is_waited_for() -> None:
    program = (sys.executable, str(STANDIN), "--token-ms", "1", "--warms-up-s", "4")
    code, lines, _ = ended(started(server=program, warmup=0))
    assert code == 0 and {line["index"] for line in of(lines, "iteration")} == set(range(6))
    assert max(line["ttft_ms"] for line in of(lines, "iteration")) < 2000
    code, lines, last = ended(started(server=(*program[:-1], "60"), start_s=6.0))
    assert code == 3 and "/health: HTTP 503: it is starting" in last


def test_a_server_that_dies_fails_what_is_left_and_ends_the_run() -> None:
    code, lines, last = ended(started("dies@3", rate=20.0))
    assert (code, last) == (3, "inference: the server ended with exit code 7 before all requests were answered")
    assert len(of(lines, "iteration")) + len(of(lines, "request_failed")) == 6
    assert of(lines, "request_failed")[-1]["message"] == "the server has ended with exit code 7"


@pytest.mark.parametrize(
    ("trouble", "last"),
    [
        ("dies@start", "inference: the server ended with exit code 9 before it was ready"),
        ("html@ready", "/v1/models says no model: <html>; start_s says how long it may take"),
        ("never@ready", "HTTP 503: {\"error\": \"loading\"}; start_s says how long it may take"),
        ("http_500@0", "inference: the server is there, and the first requests fail: HTTP 500"),
    ],
)  # fmt: skip
def test_a_server_that_does_not_serve_is_one_clear_error(trouble: str, last: str) -> None:
    code, lines, said = ended(started(trouble, start_s=60.0 if trouble.startswith(("dies", "http")) else 6.0))
    assert code == 3
    assert last in said
    assert not of(lines, "bench_start")


def test_one_that_is_slow_to_start_is_waited_for() -> None:
    program = (sys.executable, str(STANDIN), "--start-s", "1", "--token-ms", "1")
    code, lines, _ = ended(started(server=program))
    assert (code, len(of(lines, "iteration"))) == (0, 6)


def test_a_port_that_is_taken_is_said_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = int(other.getsockname()[1])
        code, lines, last = ended(started(port=port))
    assert (code, lines) == (2, [])
    assert last == f"inference: port {port} is taken: Address already in use; choose another one: workload.port"


def test_a_program_that_is_not_there() -> None:
    code, _, last = ended(started(server=("/nowhere/serve",)))
    assert code == 2
    assert last.startswith("inference: the server cannot be started: ")
    assert "/nowhere/serve" in last


def test_ended_from_outside_the_server_goes_with_it() -> None:
    process = started("never@ready")
    assert process.stdout is not None
    pid = json.loads(process.stdout.readline())["pid"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=LIMIT_S) == 3
    process.stdout.close()
    assert not Path(f"/proc/{pid}").exists()


def test_killed_the_server_goes_with_it() -> None:
    process = started("never@ready")
    assert process.stdout is not None
    pid = json.loads(process.stdout.readline())["pid"]
    process.kill()
    process.wait(timeout=LIMIT_S)
    process.stdout.close()
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_ranks_that_only_compute_end_when_rank_0_says_so() -> None:
    root = free_root()
    computes = started(rank=1, ranks=2, root=root)
    serves = started(ranks=2, root=root)
    assert ended(serves)[0] == 0
    assert ended(computes)[0] == 0


def test_a_rank_whose_server_dies_says_so() -> None:
    code, _, last = ended(started("dies@rank1", rank=1, ranks=2))
    assert (code, last) == (3, "inference: the server ended with exit code 9")


def test_what_the_server_prints_is_never_amid_our_lines() -> None:
    noisy = "import os,sys; sys.stdout.write('x' * 300); sys.stdout.flush(); os.execv(sys.argv[1], sys.argv[1:])"
    program = (sys.executable, "-c", noisy, sys.executable, str(STANDIN), "--token-ms", "1")
    process = started(server=program, output_tokens=[900, 900], requests=3, request_s=30.0)
    said = process.communicate(timeout=60)[0].splitlines()
    ours = [json.loads(line) for line in said if line.startswith("{")]
    assert [len(line["gaps_ms"]) for line in of(ours, "iteration")] == [899] * 3
