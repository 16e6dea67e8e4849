"""Training with Megatron-core on mock tokens: two replicas, or with `--tp 2` one model split over two ranks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")  # Megatron's order of kernels

import missing  # noqa: F401 - the first of these: see there

# isort: split
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
from ranks import bits, join, options, tokens
from record import Record

BATCH = 2
PARTS = 2
"""Batches of a step."""
LENGTH = 256
VOCABULARY = 4096


def model_of(args: Any, device: torch.device) -> tuple[TransformerConfig, DistributedDataParallel]:
    """No dropout, and no kernels that need more than torch."""
    config = TransformerConfig(
        num_layers=args.layers, hidden_size=args.hidden, num_attention_heads=8, tensor_model_parallel_size=args.tp,
        params_dtype=torch.float32, pipeline_dtype=torch.float32, deterministic_mode=True, attention_dropout=0.0,
        hidden_dropout=0.0, gradient_accumulation_fusion=False, masked_softmax_fusion=False, bias_dropout_fusion=False,
    )  # fmt: skip
    model = GPTModel(config, get_gpt_layer_local_spec(), vocab_size=VOCABULARY, max_sequence_length=LENGTH).to(device)
    wrapped = DistributedDataParallel(config, DistributedDataParallelConfig(), model)
    wrapped.broadcast_params()
    return config, wrapped


def main() -> None:
    parser = options(__doc__, 80)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--tp", type=int, default=1, help="ranks that share one model")
    args = parser.parse_args()
    if args.cpu:
        parser.error("Megatron-core needs GPUs: leave --cpu out")
    device = join(cpu=False)
    parallel_state.initialize_model_parallel(args.tp, 1, create_gloo_process_groups=False)
    model_parallel_cuda_manual_seed(1)
    config, model = model_of(args, device)
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=3e-4, params_dtype=torch.float32), [model], use_gloo_process_groups=False
    )
    config.grad_scale_func = optimizer.scale_loss
    config.finalize_model_grads_func = finalize_model_grads
    mask = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool, device=device).triu(1)
    places = torch.arange(LENGTH, device=device).expand(BATCH, LENGTH)

    def forward(batches: Iterator[torch.Tensor], model: Any) -> Any:
        batch = next(batches)
        losses = model(batch[:, :-1].contiguous(), places, mask, labels=batch[:, 1:].contiguous())

        def loss_of(output: torch.Tensor) -> Any:
            loss = output.float().mean()
            return loss, {"loss": loss.detach().clone()}  # Megatron divides the other one in place

        return losses, loss_of

    record = Record()
    for step in range(args.steps):
        drawn = tokens(step, parallel_state.get_data_parallel_rank(), (PARTS, BATCH, LENGTH + 1), VOCABULARY, device)
        model.zero_grad_buffer()
        optimizer.zero_grad()
        losses = get_forward_backward_func()(
            forward_step_func=forward, data_iterator=iter(drawn), model=[model], num_microbatches=PARTS,
            seq_length=LENGTH, micro_batch_size=BATCH,
        )  # fmt: skip
        optimizer.step()
        found = torch.stack([each["loss"] for each in losses])
        record.step(step, bits([found, *model.parameters()]), found.mean().item())
    record.end()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
