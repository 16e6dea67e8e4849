"""Training of a GPT with Megatron-core: data, tensor and pipeline parallelism, mock tokens, the same bit by bit.

Each iteration is a step; its `result` is the loss and a digest of this rank's parameters. Replicas must be alike.
Settings: `tp`, `pp` (data parallelism is what is left), `layers`, `hidden`, `heads`, `sequence`, `vocabulary`,
`micro_batch`, `micro_batches` (a step), `dtype`. Tokens are drawn here: Megatron's own mock data set adds a tokenizer
and index files, and no communication.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")  # Megatron's order of kernels

import torch
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.transformer_config import TransformerConfig

from harness.workloads import gpt
from harness.workloads.job import Job, Outcome

USUAL = {
    "tp": 1, "pp": 1, "layers": 8, "hidden": 1024, "heads": 16, "sequence": 512, "vocabulary": 8192, "micro_batch": 2,
    "micro_batches": 2,
}  # fmt: skip
LEARNING_RATE = 1e-4


class Workload:
    """One step an iteration, by Megatron's own schedule and optimizer."""

    op = "megatron"

    def __init__(self, job: Job) -> None:
        self._job = job
        self._shape = shape = _checked(gpt.settings(job.spec, USUAL), job.ranks)
        self._corrupt = gpt.corruption(job)
        dtype = getattr(torch, job.spec.get("dtype", "float32"))
        gpt.deterministic()
        parallel_state.initialize_model_parallel(shape["tp"], shape["pp"], create_gloo_process_groups=False)
        torch.manual_seed(job.seed)
        model_parallel_cuda_manual_seed(job.seed)
        config = self._config(dtype)
        self._model = self._wrapped(config, dtype)
        self._optimizer = get_megatron_optimizer(
            OptimizerConfig(optimizer="adam", lr=LEARNING_RATE, params_dtype=dtype, bf16=dtype == torch.bfloat16),
            [self._model],
            use_gloo_process_groups=False,
        )
        config.grad_scale_func = self._optimizer.scale_loss
        config.finalize_model_grads_func = finalize_model_grads
        self._step = get_forward_backward_func()
        self.bytes = sum(each.numel() * each.element_size() for each in self._model.parameters())
        self._batches: list[torch.Tensor] = []
        self._losses: list[Any] = []
        length = shape["sequence"]
        self._mask = torch.ones(1, 1, length, length, dtype=torch.bool, device=job.device).triu(1)
        self._places = torch.arange(length, device=job.device).expand(shape["micro_batch"], length)

    def _config(self, dtype: torch.dtype) -> TransformerConfig:
        """No dropout, and no kernels that need more than torch."""
        shape = self._shape
        return TransformerConfig(
            num_layers=shape["layers"],
            hidden_size=shape["hidden"],
            num_attention_heads=shape["heads"],
            tensor_model_parallel_size=shape["tp"],
            pipeline_model_parallel_size=shape["pp"],
            pipeline_dtype=dtype,
            params_dtype=dtype,
            bf16=dtype == torch.bfloat16,
            deterministic_mode=True,
            attention_dropout=0.0,
            hidden_dropout=0.0,
            gradient_accumulation_fusion=False,
            masked_softmax_fusion=False,
            bias_dropout_fusion=False,
        )

    def _wrapped(self, config: TransformerConfig, dtype: torch.dtype) -> DistributedDataParallel:
        model = GPTModel(
            config,
            get_gpt_layer_local_spec(),
            vocab_size=self._shape["vocabulary"],
            max_sequence_length=self._shape["sequence"],
            pre_process=parallel_state.is_pipeline_first_stage(),
            post_process=parallel_state.is_pipeline_last_stage(),
        ).to(self._job.device, dtype)
        wrapped = DistributedDataParallel(config, DistributedDataParallelConfig(), model)
        wrapped.broadcast_params()
        return wrapped

    def prepare(self, index: int) -> None:
        """The tokens of this step: all ranks of a replica draw the same."""
        replica, length = parallel_state.get_data_parallel_rank(), self._shape["sequence"] + 1
        shape = (self._shape["micro_batches"], self._shape["micro_batch"], length)
        drawn = gpt.tokens_of(self._job.seed, replica, index, shape, self._shape["vocabulary"])
        self._batches = list(drawn.to(self._job.device))

    def run(self, index: int) -> None:
        self._model.zero_grad_buffer()
        self._optimizer.zero_grad()
        self._losses = self._step(
            forward_step_func=self._forward,
            data_iterator=iter(self._batches),
            model=[self._model],
            num_microbatches=len(self._batches),
            seq_length=self._shape["sequence"],
            micro_batch_size=self._shape["micro_batch"],
        )
        self._optimizer.step()

    def _forward(self, batches: Iterator[torch.Tensor], model: Any) -> Any:
        batch = next(batches)
        losses = model(batch[:, :-1].contiguous(), self._places, self._mask, labels=batch[:, 1:].contiguous())

        def loss_of(output: torch.Tensor) -> Any:
            loss = output.float().mean()
            return loss, {"loss": loss.detach().clone()}  # Megatron divides the other one in place

        return losses, loss_of

    def check(self, index: int) -> Outcome:
        """What several ranks have must be alike: each part of the model on all replicas, and what tensor parallelism
        does not split on all ranks of a stage. The loss is that of the last stage."""
        parameters = list(self._model.parameters())
        whole = [each for each in parameters if not getattr(each, "tensor_model_parallel", False)]
        if self._corrupt == (self._job.rank, index):
            gpt.flip(whole[0])
        stage = f"stage {parallel_state.get_pipeline_model_parallel_rank()}"
        part = f"{stage}, part {parallel_state.get_tensor_model_parallel_rank()}"
        mine = {part: gpt.digest(parameters), stage: gpt.digest(whole)}
        losses = [float(each["loss"]) for each in self._losses]
        every = [json.loads(text) for text in gpt.told(self._job, index, json.dumps([mine, losses]))]
        first = {place: found for theirs, _losses in reversed(every) for place, found in theirs.items()}
        told_losses = [sum(theirs) / len(theirs) for _places, theirs in every if theirs]
        text = " ".join(loss.hex() for loss in told_losses)
        wrong = int(any(first[place] != found for place, found in mine.items()))
        return Outcome(wrong, {"loss": told_losses[0], "result": f"{text} {mine[part]}"})


def _checked(shape: dict[str, int], ranks: int) -> dict[str, int]:
    """Raises ValueError where something cannot be split evenly, before Megatron fails on it in some deep place."""
    parts = {f"{ranks} ranks": (ranks, "tp x pp", shape["tp"] * shape["pp"])}
    for name, by in (("layers", "pp"), ("heads", "tp"), ("hidden", "heads"), ("vocabulary", "tp")):
        parts[f"{name} {shape[name]}"] = (shape[name], by, shape[by])
    for what, (number, by, count) in parts.items():
        if number % count:
            raise ValueError(f"{what} cannot be split evenly by {by} = {count}")
    return shape
