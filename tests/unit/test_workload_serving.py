"""Inference with tensor parallelism, and what graphs say without a GPU."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch_python as starter
from torch_python import RANK, RankRun, needs_torch, run_ranks, torch_python

SMALL = {"layers": 2, "hidden": 64, "heads": 4, "vocabulary": 97, "batch": 2, "prompt": 7, "tokens": 6}

# The same model without ranks, shards or a cache: every token from the whole text so far, by torch's own attention.
WHOLE = """
import hashlib, json, math, sys
import torch
from torch.nn import functional
s, seed = json.loads(sys.argv[1]), int(sys.argv[2])
hidden, heads = s["hidden"], s["heads"]
torch.set_default_dtype(torch.float64)
def drawn(*shape, by):
    return torch.randn(*shape, generator=by, dtype=torch.float32).double()
by = torch.Generator().manual_seed(seed)
table = drawn(s["vocabulary"], hidden, by=by)
shapes = [(hidden, hidden)] * 4 + [(4 * hidden, hidden), (hidden, 4 * hidden)]
head = drawn(s["vocabulary"], hidden, by=by)
layers = [[2 * drawn(*shape, by=by) / math.sqrt(shape[1]) for shape in shapes] for _ in range(s["layers"])]
by = torch.Generator().manual_seed(seed + 1)
prompts = torch.randint(0, s["vocabulary"], (2, s["batch"], s["prompt"]), generator=by)
def normal(x):
    return functional.layer_norm(x, (hidden,))
def last(text):
    x = table[text]
    for q, k, v, out, wide, narrow in layers:
        y = normal(x).transpose(0, 1)
        given = dict(bias_k=None, bias_v=None, add_zero_attn=False, dropout_p=0.0)
        given.update(out_proj_weight=out, out_proj_bias=None, need_weights=False)
        zeros = torch.zeros(3 * hidden)
        mask = torch.full((len(y), len(y)), -math.inf).triu(1)
        mixed, _ = functional.multi_head_attention_forward(
            y, y, y, hidden, heads, torch.cat([q, k, v]), zeros, attn_mask=mask, **given)
        x = x + mixed.transpose(0, 1)
        x = x + functional.gelu(normal(x) @ wide.T) @ narrow.T
    return (normal(x[:, -1:]) @ head.T).argmax(-1)
for prompt in prompts:
    text = prompt
    for _ in range(s["tokens"]):
        text = torch.cat([text, last(text)], 1)
    print(hashlib.sha256(text[:, s["prompt"]:].contiguous().numpy().tobytes()).hexdigest()[:16])
"""


def results(run: RankRun) -> list[str]:
    return [line["result"] for line in run.of("iteration")]


@needs_torch
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_text_is_that_of_the_whole_model(ranks: int) -> None:
    words = [str(torch_python()), "-c", WHOLE, json.dumps(SMALL), "5"]
    whole = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    runs = run_ranks("decode", ranks, "--iterations", "4", "--warmup", "0", "--seed", "5", spec=SMALL)
    for run in runs:
        assert run.exit_code == 0, run.stderr
        assert results(run) == whole * 2
    assert whole[0] != whole[1]


@needs_torch
def test_every_token_is_timed_on_its_own() -> None:
    for run in run_ranks("decode", 2, "--iterations", "2", "--warmup", "1", spec=SMALL):
        assert [line["index"] for line in run.of("iteration")] == [-1, 0, 1]
        for line in run.of("iteration"):
            assert len(line["gaps_ms"]) == SMALL["tokens"] - 1
            assert min(line["gaps_ms"]) > 0 < line["ttft_ms"]
            whole_ms = (line["end_ns"] - line["start_ns"]) / 1e6
            assert 0.5 * whole_ms < line["ttft_ms"] + sum(line["gaps_ms"]) <= whole_ms


@needs_torch
@pytest.mark.parametrize("corrupt,wrong", [("1:2", [0, 1]), ("0:2", [1, 1])])
def test_a_token_that_was_changed_is_found(corrupt: str, wrong: list[int]) -> None:
    """Rank 0's is what the others are compared with: a wrong one of its own makes theirs differ, too."""
    words = ("--iterations", "4", "--warmup", "0", "--corrupt", corrupt)
    runs = run_ranks("decode", 2, *words, spec=SMALL)
    found = [[line["wrong_elements"] for line in run.of("iteration")] for run in runs]
    assert found == [[0, 0, count, 0] for count in wrong]
    assert [run.exit_code for run in runs] == [1 if count else 0 for count in wrong]


@needs_torch
@pytest.mark.parametrize(
    "kind,spec,words",
    [
        ("decode", {**SMALL, "heads": 3, "hidden": 63}, "decode: 3 heads of hidden 63 cannot be split over 2 ranks"),
        ("graphs", {}, "graphs: CUDA graphs need a GPU"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(kind: str, spec: dict[str, Any], words: str) -> None:
    for run in run_ranks(kind, 2, spec=spec):
        assert (run.exit_code, run.stderr) == (2, words + "\n")


# Graphs on a double of torch.cuda: a captured graph keeps what it was given to do, and does it at every replay.
GRAPHS = """
import contextlib, sys
import torch
import torch.distributed as dist
sys.path.insert(0, ROOT)
from harness.workloads import job, rank

events, capturing, streams = [], [], []
reduce, copy, start, close = dist.all_reduce, torch.Tensor.copy_, job.Job.__init__, job.Job.close

class CUDAGraph:
    def __init__(self):
        self.work = []
        events.append("made")
    def __del__(self):
        events.append("gone")
    def replay(self):
        for work in self.work:
            work()

class Stream:
    def __init__(self):
        streams.append(self)
    def wait_stream(self, other):
        pass
    def synchronize(self):
        pass

class graph:
    def __init__(self, into, stream=None, capture_error_mode="global"):
        assert [stream] == streams and capture_error_mode == "thread_local"
        self.into = into
    def __enter__(self):
        capturing.append(self.into)
    def __exit__(self, *failure):
        capturing.pop()

def given(work):
    capturing[-1].work.append(work) if capturing else work()

def begin(self, told):
    start(self, told)
    self.cuda = True

def end(self):
    self.say("graphs", events=events)
    close(self)

torch.cuda.CUDAGraph, torch.cuda.graph, torch.cuda.Stream = CUDAGraph, graph, Stream
torch.cuda.current_stream, torch.cuda.stream = lambda: None, lambda stream: contextlib.nullcontext()
torch.cuda.get_device_name = lambda: "double"
dist.all_reduce = lambda x: given(lambda: reduce(x))
torch.Tensor.copy_ = lambda x, y: given(lambda: copy(x, y))
job.Job.__init__, job.Job.close = begin, end
rank.main()
"""


@needs_torch
@pytest.mark.parametrize("corrupt", ["", "0:3"])
def test_graphs_are_exact_captured_anew_and_gone_before_the_process_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, corrupt: str
) -> None:
    script = tmp_path / "rank.py"
    script.write_text(GRAPHS.replace("ROOT", repr(str(RANK.parents[2]))))
    monkeypatch.setattr(starter, "RANK", script)
    words = ["--iterations", "5", "--warmup", "1", *(["--corrupt", corrupt] if corrupt else [])]
    runs = run_ranks("graphs", 2, *words, spec={"bytes": 4096, "count": 3, "recapture_every": 2})
    for number, run in enumerate(runs):
        wrong = [1 if corrupt and (number, index) == (0, 3) else 0 for index in range(-1, 5)]
        assert [line["wrong_elements"] for line in run.of("iteration")] == wrong, run.stderr
        assert [line["captured"] for line in run.of("iteration")] == [1, 1, 2, 2, 3, 3]
        assert run.of("graphs")[0]["events"] == ["made", "gone"] * 3, "each before the next, the last before the end"
        assert run.exit_code == int(any(wrong))
