"""How well-known programs say that a step has ended: patterns for `workload: {kind: command}`. Pure data.

Each finds one line a step. Named groups: `step` (a line with the number of the last one is the same step, printed
again), `ms` or `s` (how long the program itself says that the step took), `loss`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NUMBER = r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?"
GAP = r"(?:\x1b\[[0-9;]*m|\s)+"
"""Between words that may be coloured."""


@dataclass(frozen=True)
class Preset:
    """`pattern`: a regular expression for one line; `about`: whose line it is, and what to set so that it comes."""

    pattern: str
    about: str


PRESETS: Mapping[str, Preset] = {
    "megatron": Preset(
        rf"^.*?\biteration\s+(?P<step>\d+)/\s*\d+ \|.*?elapsed time per iteration \(ms\): (?P<ms>[0-9.]+)"
        rf"(?:.*?lm loss: (?P<loss>{NUMBER}))?",
        "Megatron-LM's training log; --log-interval 1",
    ),
    "nemo": Preset(
        rf"^.*?\biteration (?P<step>\d+)/\d+ \|.*?reduced_train_loss: (?P<loss>{NUMBER})"
        r"(?:.*?train_step_timing in s: (?P<s>[0-9.]+))?",
        "NeMo's progress line; log_every_n_steps=1",
    ),
    "deepspeed": Preset(
        r"^.*?\bstep=(?P<step>\d+), skipped=",
        "DeepSpeed's own line; steps_per_print: 1",
    ),
    "lightning": Preset(
        r"^.*?Epoch (?P<epoch>\d+):.*?\| *(?P<step>\d+)/(?:\d+|\?) \[",
        "Lightning's progress bar; TQDMProgressBar(refresh_rate=1)",
    ),
    "hf_trainer": Preset(
        rf"^.*?\{{'loss': '?(?P<loss>{NUMBER})'?,.*?'epoch': '?(?P<step>[0-9.]+)'?\}}",
        "transformers' Trainer; logging_steps=1",
    ),
    "torchtitan": Preset(
        rf"^.*?step:{GAP}(?P<step>\d+){GAP}loss:{GAP}(?P<loss>{NUMBER})",
        "torchtitan's training log; log_freq = 1",
    ),
    "nccl_tests": Preset(
        r"^ *(?P<step>\d+) +\d+ +(?:float|double|half|bfloat16|u?int\d+|fp8_e\dm\d|f\de\dm\d) +\S+ +-?\d+ +[0-9.]+ ",
        "nccl-tests' rows; kind: nccl_tests knows more",
    ),
    "vllm": Preset(
        r"^.*?\d+%\|.*?\| *(?P<step>\d+)/\d+ \[",
        "the progress bar of vLLM's benchmarks; kind: inference knows more",
    ),
}
