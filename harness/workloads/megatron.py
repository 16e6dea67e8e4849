"""Training of a GPT with Megatron-core: data, tensor and pipeline parallelism, mock tokens, the same bit by bit.

Each iteration is a step; its `result` is the loss and a digest of this rank's parameters. Replicas must be alike.
Settings: `tp`, `pp` (data parallelism is what is left), `layers`, `hidden`, `heads`, `sequence`, `vocabulary`,
`micro_batch`, `micro_batches` (a step), `dtype`. Tokens are drawn here: Megatron's own mock data set adds a tokenizer
and index files, and no communication.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA's libraries start
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")  # Megatron's order of kernels

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.transformer_config import TransformerConfig

from harness.workloads.gpt import digest
from harness.workloads.job import Job, Outcome

SETTINGS = {
    "tp": 1, "pp": 1, "layers": 8, "hidden": 1024, "heads": 16, "sequence": 512, "vocabulary": 8192, "micro_batch": 2,
    "micro_batches": 2,
}  # fmt: skip
LEARNING_RATE = 1e-4


class Workload:
    """One step an iteration, by Megatron's own schedule and optimizer."""

    op = "megatron"

    def __init__(self, job: Job) -> None:
        self._job = job
        self._shape = shape = {name: int(job.spec.get(name, usual)) for name, usual in SETTINGS.items()}
        if job.ranks % (shape["tp"] * shape["pp"]):
            raise ValueError(f"{job.ranks} ranks cannot be split into tp {shape['tp']} x pp {shape['pp']}")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cuda.matmul.allow_tf32 = False
        parallel_state.initialize_model_parallel(shape["tp"], shape["pp"], create_gloo_process_groups=False)
        model_parallel_cuda_manual_seed(job.seed)
        torch.manual_seed(job.seed)
        dtype = getattr(torch, job.spec.get("dtype", "float32"))
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
        """The tokens of this step: of (seed, replica, step) alone, so that all ranks of a replica have the same."""
        replica = parallel_state.get_data_parallel_rank()
        draw = torch.Generator().manual_seed((self._job.seed * 1_000_003 + index + 1_000) * 1_009 + replica)
        shape = (self._shape["micro_batches"], self._shape["micro_batch"], self._shape["sequence"] + 1)
        steps = torch.randint(1, 4, shape, generator=draw).cumsum(2)
        self._batches = list((steps % self._shape["vocabulary"]).to(self._job.device))

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
            return loss, {"loss": loss.detach()}

        return losses, loss_of

    def check(self, index: int) -> Outcome:
        """Replicas of the same part of the model must be alike; the loss is that of the last stage."""
        part = (parallel_state.get_tensor_model_parallel_rank(), parallel_state.get_pipeline_model_parallel_rank())
        mine = digest(self._model.parameters())
        loss = sum(float(each["loss"]) for each in self._losses) / len(self._losses) if self._losses else None
        every: list[Any] = [None] * self._job.ranks
        dist.all_gather_object(every, (part, mine, loss))
        alike = next(theirs for place, theirs, _loss in every if place == part)
        losses = [told for _place, _theirs, told in every if told is not None]
        text = " ".join(told.hex() for told in losses)
        return Outcome(int(mine != alike), {"loss": losses[0], "result": f"{text} {mine}"})
