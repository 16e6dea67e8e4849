"""Training of GPT-2 with Hugging Face's accelerate: random weights, the library's own data parallelism."""

from __future__ import annotations

import missing  # noqa: F401 - the first of these: see there

# isort: split
import torch
from accelerate import Accelerator
from ranks import bits, options, repeatable, tokens
from record import Record
from torch.utils.data import DataLoader, TensorDataset
from transformers import GPT2Config, GPT2LMHeadModel

BATCH = 4


def main() -> None:
    parser = options(__doc__, 80)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=512)
    args = parser.parse_args()
    repeatable()
    accelerator = Accelerator(cpu=args.cpu)
    config = GPT2Config(
        vocab_size=4096, n_positions=128, n_layer=args.layers, n_embd=args.hidden, n_head=8,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager", use_cache=False,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    texts = tokens(0, 0, (args.steps * BATCH * accelerator.num_processes, 128), 4096, torch.device("cpu"))
    model, optimizer, batches = accelerator.prepare(
        model, optimizer, DataLoader(TensorDataset(texts), batch_size=BATCH, drop_last=True)
    )
    record = Record()
    for step, (batch,) in enumerate(batches):
        loss = model(input_ids=batch, labels=batch).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        record.step(step, bits([loss, *model.parameters()]), loss.item())
    record.end()
    accelerator.end_training()


if __name__ == "__main__":
    main()
