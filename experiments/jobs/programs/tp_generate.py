"""Text of a model that transformers splits over all ranks (tensor parallel), greedy. A step is a batch of requests."""

from __future__ import annotations

import os
import tempfile

import missing  # noqa: F401 - the first of these: see there

# isort: split
import torch
import torch.distributed as dist
from ranks import bits, join, options, repeatable, tokens
from record import Record
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY = 4096


def main() -> None:
    parser = options(__doc__, 40)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--new", type=int, default=8, help="tokens of an answer")
    args = parser.parse_args()
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=args.hidden, intermediate_size=2 * args.hidden, num_attention_heads=16,
        num_key_value_heads=16, num_hidden_layers=args.layers, max_position_embeddings=args.prompt + args.new,
        bos_token_id=None, eos_token_id=None, pad_token_id=0, attn_implementation="eager",
    )  # fmt: skip
    # Only what is loaded is split: every rank saves the same random weights, and takes its part of them. Before
    # there is a process group: in one, only rank 0 would save.
    repeatable()
    with tempfile.TemporaryDirectory(dir=os.environ.get("R2CC_OUT")) as folder:
        LlamaForCausalLM(config).save_pretrained(folder)
        device = join(args.cpu)
        model = LlamaForCausalLM.from_pretrained(folder, tp_plan="auto", dtype=torch.float32).eval()
    record = Record()
    for step in range(args.steps):
        prompt = tokens(step, 0, (args.batch, args.prompt), VOCABULARY, device)
        answer = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=args.new, min_new_tokens=args.new,
            do_sample=False, return_dict_in_generate=True, output_logits=True,
        )  # fmt: skip
        record.step(step, bits([answer.sequences, *answer.logits]))
    record.end()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
