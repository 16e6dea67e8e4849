"""How well-known programs say that a step has ended: patterns for `workload: {kind: command}`. Pure data.

Each finds one line a step. Named groups: `step` (a line with the number of the last one is the same step, printed
again), `ms` or `s` (how long the program itself says that the step took), `loss`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NUMBER = r"[-+]?(?:[0-9.]+(?:[eE][-+]?[0-9]+)?|nan|inf)"
GAP = r"(?:\x1b\[[0-9;]*m|[ \t])+"
"""Between words that may be coloured."""
BAR = r"[^|\n]*\|[^|\n]*\| *(?P<step>[1-9]\d*)/(?:\d+|\?) \["
"""tqdm's, once it has moved."""


@dataclass(frozen=True)
class Preset:
    """`pattern`: a regular expression for one line; `about`: whose line it is, and what to set so that it comes."""

    pattern: str
    about: str


PRESETS: Mapping[str, Preset] = {
    "megatron": Preset(
        rf"\biteration +(?P<step>\d+)/ *\d+ \|.*?elapsed time per iteration \(ms\): (?P<ms>[0-9.]+)"
        rf"(?:.*?lm loss: (?P<loss>{NUMBER}))?",
        "Megatron-LM's training log; --log-interval 1",
    ),
    "nemo": Preset(
        rf"\bTraining epoch (?P<epoch>\d+), iteration (?P<step>\d+)/\S+"
        rf"(?:.*? \| reduced_train_loss: (?P<loss>{NUMBER}))?(?:.*? \| train_step_timing in s: (?P<s>{NUMBER}))?",
        "NeMo's progress line; log_every_n_steps=1",
    ),
    "deepspeed": Preset(
        r"\b(?:step=|steps: )(?P<step>\d+)"
        rf"(?:, skipped=| loss: (?P<loss>{NUMBER}) .*?iter time \(s\): (?P<s>[0-9.]+))",
        "DeepSpeed's own line, or its pipeline's; steps_per_print: 1",
    ),
    "lightning": Preset(
        rf"\bEpoch (?P<epoch>\d+):{BAR}",
        "Lightning's progress bar; TQDMProgressBar(refresh_rate=1)",
    ),
    "hf_trainer": Preset(
        rf"\{{'loss': '?(?P<loss>{NUMBER})'?,.*?'epoch': ",
        "transformers' Trainer; logging_steps=1",
    ),
    "torchtitan": Preset(
        rf"step:(?<!validate step:){GAP}(?P<step>\d+){GAP}loss:{GAP}(?P<loss>{NUMBER})",
        "torchtitan's training log; metrics.log_freq 1",
    ),
    "nccl_tests": Preset(
        r"^ *+(?P<step>\d++) ++\d++ ++(?:float|double|half|bfloat16|u?int\d+|fp8_e\dm\d|f\de\dm\d)"
        r" +\S+ +-?\d+ +[0-9.]+ ",
        "nccl-tests' rows; kind: nccl_tests knows more",
    ),
    "vllm": Preset(
        rf"^(?! *[Ww]arm).*?\d%{BAR}",
        "the progress bar of vLLM's benchmarks; TQDM_MININTERVAL=0; kind: inference knows more",
    ),
}
