"""What a program prints, read as steps (harness/workloads/reading/steps.py)."""

from __future__ import annotations

import json
import time

import pytest
from regex import Match

from harness.errors import InfraError
from harness.workloads.reading.patterns import MOST_S, Finder, fault_of
from harness.workloads.reading.presets import PRESETS
from harness.workloads.reading.steps import CommandLines, Wanted

MS = 1_000_000


def reader(step: str | None = r"step (?P<step>\d+)", **wanted: object) -> CommandLines:
    pattern = None if step is None else Finder("progress.step", step)
    made = CommandLines(Wanted(rank=1, ranks=2, **{"warmup": 0, "step": pattern, **wanted}))  # type: ignore[arg-type]
    made.begin(100 * MS)
    return made


def events(made: CommandLines, *batches: tuple[int, str]) -> list[dict[str, object]]:
    found = [line for ms, text in batches for line in made.read(text.encode().split(b"\n"), ms * MS)]
    return [line for line in found if isinstance(line, dict)]


def iterations(lines: list[dict[str, object]]) -> list[tuple[object, float]]:
    return [
        (line["index"], (line["end_ns"] - line["start_ns"]) / MS)  # type: ignore[operator]
        for line in lines
        if line["event"] == "iteration"
    ]


def test_a_step_lasts_from_the_line_before_to_its_own() -> None:
    lines = events(reader(), (110, "hello"), (120, "step 1"), (150, "noise\nstep 2"), (155, "step 3"))
    assert iterations(lines) == [(0, 20.0), (1, 30.0), (2, 5.0)]
    assert [line["event"] for line in lines[:2]] == ["bench_start", "progress"]


def test_warmup_steps_have_negative_numbers() -> None:
    lines = events(reader(warmup=2), (120, "step 1"), (130, "step 2"), (140, "step 3"))
    assert [index for index, _ in iterations(lines)] == [-2, -1, 0]


def test_what_the_program_says_of_its_time_counts() -> None:
    lines = events(reader(r"step \d+ (?P<ms>[0-9.]+) ms"), (200, "step 1 7.5 ms"), (300, "step 2 8 ms"))
    assert iterations(lines) == [(0, 7.5), (1, 8.0)]


def test_a_loss_that_is_no_number_is_said_to_be_none() -> None:
    lines = events(reader(r"step \d+ loss (?P<loss>\S+)"), (110, "step 1 loss 2.5"), (120, "step 2 loss nan"))
    assert [line["loss"] for line in lines if line["event"] == "iteration"] == [2.5, None]


def test_a_progress_bar_that_is_drawn_again_is_one_step() -> None:
    lines = events(reader(), (110, "step 1"), (115, "step 1"), (120, "step 2"))
    assert [index for index, _ in iterations(lines)] == [0, 1]


def test_a_line_of_the_net_library_amid_one_of_the_program_harms_neither() -> None:
    ours = json.dumps({"t_ns": 5, "event": "nic", "nic": "eth0", "state": "down"}, separators=(",", ":"))
    lines = events(reader(), (110, f"ste{ours}"), (120, "p 7 done"))
    assert [line["event"] for line in lines] == ["nic", "bench_start", "progress", "iteration", "progress"]
    assert iterations(lines) == [(0, 20.0)]


def test_without_a_pattern_the_whole_program_is_one_step() -> None:
    made = reader(None)
    events(made, (150, "anything"))
    lines = [line for line in made.end(400 * MS) if isinstance(line, dict)]
    assert iterations(lines) == [(0, 300.0)]
    assert [line["event"] for line in lines] == ["bench_start", "progress", "iteration", "bench_end"]


def test_collectives_that_nccl_counts_make_steps_of_a_silent_program() -> None:
    made = reader(None, every=10)

    def traffic(comm: str, ended: int) -> str:
        return json.dumps({"t_ns": 9, "event": "traffic", "comm": comm, "ended": ended}, separators=(",", ":"))

    lines = events(made, (110, traffic("a", 6)), (120, traffic("b", 5)), (180, traffic("a", 26)))
    assert iterations(lines) == [(0, 20.0), (1, 60.0), (2, 0.0)]
    assert [line["event"] for line in made.end(200 * MS) if isinstance(line, dict)] == ["bench_end"]


def test_the_last_match_is_the_result() -> None:
    made = reader(result=Finder("result.pattern", r"final loss ([0-9.]+)"))
    events(made, (110, "step 1"), (120, "final loss 3.25"), (130, "final loss 2.5"))
    ends = [line for line in made.end(140 * MS) if isinstance(line, dict)]
    assert ends[-1]["result"] == "2.5"


def test_steps_that_came_all_at_once_say_nothing() -> None:
    made = reader()
    events(made, (110, "\n".join(f"step {number}" for number in range(30))))
    with pytest.raises(InfraError, match="29 of 30 steps were read together"):
        list(made.end(120 * MS))


def test_what_it_printed_last_is_quoted_and_bounded() -> None:
    made = reader()
    events(made, (110, "\n".join(f"line {number} {'x' * 500}" for number in range(100))))
    quoted = made.quoted().splitlines()
    assert len(quoted) == 8
    assert quoted[-1].startswith("line 99 ")
    assert max(map(len, quoted)) == 200


# Who prints each, with values of our own: Megatron-LM megatron/training/training.py, training_log; NeMo
# nemo/lightning/pytorch/callbacks/progress_printer.py; DeepSpeed runtime/engine.py, _report_progress, and
# runtime/pipe/engine.py, train_batch; Lightning callbacks/progress/tqdm_progress.py; transformers trainer_callback.py,
# ProgressCallback (numbers up to 4.x, texts from 5 on); torchtitan components/metrics.py; nccl-tests src/common.cu;
# vLLM benchmarks/serve.py, tqdm's bar without a description.
SAID = {
    "megatron": (
        " [2025-06-03 10:20:30] iteration        7/      50 | consumed samples:           56 | elapsed time per "
        "iteration (ms): 123.4 | throughput per GPU (TFLOP/s/GPU): 80.2 | learning rate: 1.500000E-04 | "
        "global batch size:     8 | lm loss: 9.123456E+00 | loss scale: 1.0 | grad norm: 1.204 |"
    ),
    "nemo": (
        "Training epoch 0, iteration 9/99 | lr: 1.49e-06 | global_batch_size: 8 | global_step: 9 | "
        "reduced_train_loss: 11.02 | train_step_timing in s: 0.5 | consumed_samples: 80"
    ),
    "deepspeed": (
        "[2025-06-03 10:20:30,123] [INFO] [logging.py:107:log_dist] [Rank 0] step=9, skipped=0, "
        "lr=[0.001], mom=[(0.9, 0.9)]"
    ),
    "lightning": "Epoch 0:  45%|████▌     | 9/20 [00:01<00:01,  8.77it/s, v_num=0, train_loss=2.31]",
    "hf_trainer": "{'loss': '2.0811', 'grad_norm': '1.02', 'learning_rate': '4.5e-05', 'epoch': '0.9'}",
    "torchtitan": (
        "[rank0]:[titan] 2025-06-03 10:20:30,123 - root - INFO - \x1b[31mstep:  9  \x1b[32mloss:  7.8123  "
        "\x1b[38;2;180;60;0mgrad_norm:  1.2000  \x1b[38;2;54;234;195mmemory:  0.50GiB(0.60%)  \x1b[34mtps: 9,001"
    ),
    "nccl_tests": (
        "     1048576        262144     float     sum      -1    61.85   16.95   16.95      0    61.72"
        "   16.99   16.99      0"
    ),
    "vllm": " 45%|████▌     | 9/20 [00:01<00:01,  8.77it/s]",
}
STEP = dict.fromkeys(SAID, b"9") | {"megatron": b"7", "nccl_tests": b"1048576"}
ALSO = [
    ("deepspeed", "steps: 9 loss: 2.3026 iter time (s): 0.101 samples/sec: 79.208"),
    ("deepspeed", "steps: 9 loss: 2.3026 aux: 0.1000 iter time (s): 0.101 samples/sec: 79.208"),
    (
        "nemo",
        "Training epoch 0, iteration 9/99 | lr: 1.5e-06 | reduced_train_loss: nan | train_step_timing in s: 1e+01",
    ),
    ("lightning", "Epoch 3: |          | 9/? [00:01<00:00,  8.77it/s, v_num=0]"),
    ("hf_trainer", "{'loss': 2.0811, 'grad_norm': 1.02, 'learning_rate': 4.5e-05, 'epoch': 0.9}"),
    ("hf_trainer", "{'loss': nan, 'grad_norm': nan, 'learning_rate': 4.5e-05, 'num_tokens': 80.0, 'epoch': 0.9}"),
    ("torchtitan", "[titan] 2025-06-03 10:20:30,123 - root - INFO - step:  9  loss:  7.8123  grad_norm:  1.2000"),
]
OTHERS = [
    ("megatron", " validation loss at iteration 10 | lm loss value: 9.1E+00 | lm loss PPL: 9.1E+03 |"),
    ("nemo", "Validation: iteration 1/2"),
    ("deepspeed", "[Rank 0] epoch=0/micro_step=9/global_step=9, RunningAvgSamplesPerSec=80.1, MemAllocated=0.5GB"),
    ("lightning", "Epoch 1:   0%|          | 0/20 [00:00<?, ?it/s]"),
    ("lightning", "Validation DataLoader 0:  45%|████▌     | 9/20 [00:01<00:01,  8.77it/s]"),
    ("hf_trainer", "{'eval_loss': '2.1', 'eval_runtime': '1.2', 'epoch': '0.9'}"),
    ("torchtitan", "root - INFO - \x1b[33mvalidate step:  9  \x1b[32mloss:  7.8123  \x1b[34mtps: 9,001"),
    ("nccl_tests", "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1048576 step: 2(factor) warmup iters: 1"),
    ("vllm", "Warmup:  45%|████▌     | 9/20 [00:01<00:01,  8.77it/s]"),
    ("vllm", "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.2s/it]"),
]


def searched(name: str, line: str) -> Match[bytes] | None:
    found = Finder(name, PRESETS[name].pattern).found(f"# noise\n{line}\n# more".encode(), 0)
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(("name", "line"), [*SAID.items(), *ALSO])
def test_a_preset_finds_the_line_of_its_program(name: str, line: str) -> None:
    found = searched(name, line)
    assert found is not None
    assert "step" not in found.groupdict() or found["step"] == STEP[name]
    assert "loss" not in found.groupdict() or found["loss"] is None or float(found["loss"]) != 0


@pytest.mark.parametrize(("name", "line"), OTHERS)
def test_a_preset_passes_by_what_is_no_step(name: str, line: str) -> None:
    assert searched(name, line) is None


def test_there_is_a_line_of_each_preset() -> None:
    assert SAID.keys() == PRESETS.keys()


def test_a_loss_that_is_no_number_is_left_out() -> None:
    lines = events(reader(r"step (?P<step>\d+) loss (?P<loss>\S+)"), (120, "step 1 loss nan"), (130, "step 2 loss 0.5"))
    assert [line.get("loss") for line in lines if line["event"] == "iteration"] == [None, 0.5]


def test_a_time_that_is_no_number_is_an_error_with_a_hint() -> None:
    with pytest.raises(InfraError, match="found '7,5' as ms, which is no number") as error:
        events(reader(r"step (?P<step>\d+) (?P<ms>\S+) ms"), (120, "step 1 7,5 ms"))
    assert "[0-9.]+" in str(error.value)


@pytest.mark.parametrize("key", ["progress.step", "result.pattern"])
@pytest.mark.parametrize("pattern", [r"(a+)+$", r".*a.*b.*c.*d"])
def test_a_pattern_that_takes_for_ever_is_an_error_that_names_it(pattern: str, key: str) -> None:
    slow = Finder(key, pattern)
    made = reader(**({"result": slow} if key == "result.pattern" else {"step": pattern}))
    began_s = time.process_time()
    with pytest.raises(InfraError, match=f"rank 1: {key} is too slow for what the program prints") as error:
        events(made, (120, "step 1\n" + 50_000 * "a" + "!"))
    assert time.process_time() - began_s < 3 * MOST_S
    assert pattern in error.value.message and "has 50001 bytes and begins with 'aaaa" in error.value.message
    assert len(error.value.message) < 400 and "a repeat within a repeat" in str(error.value)


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        (r"step (?P<step>\d+)", ""),
        (r"(?P<step>[0-9a-f]{8}-[0-9a-f]{4}) in [0-9]{1,6} s", ""),
        (r"step (", "it is no regular expression: missing )"),
        (r"\p{Foo}x", "it is no regular expression: unknown property"),
        (r"x{1000000000}", "its repeats make 1e+09 copies"),
        (r"((x{100}){100}){100}", "its repeats make 1e+06 copies"),
        ("x{" + "9" * 5000 + "}", "its repeats make inf copies"),
        (r"\d*", "it matches an empty line"),
    ],
)
def test_a_pattern_of_no_use_is_refused_before_the_run(pattern: str, fault: str) -> None:
    assert fault_of(pattern).startswith(fault) if fault else not fault_of(pattern)


def test_a_pattern_means_what_it_means_to_python() -> None:
    lines = events(reader(r"^\s*(?:step|iteration) +(?P<step>\d+)(?!\S)$"), (120, "  step 1\niteration 2\nstep 3x"))
    assert [index for index, _ in iterations(lines)] == [0, 1]


def test_a_long_result_is_compared_by_its_digest() -> None:
    made = reader(r"step (?P<step>\d+) gave (?P<result>.*)")
    lines = events(made, (120, "step 1 gave abc"), (130, f"step 2 gave {'x' * 201}"))
    results = [str(line["result"]) for line in lines if line["event"] == "iteration"]
    assert results[0] == "abc"
    assert results[1].startswith("sha256 ") and len(results[1]) == 71
