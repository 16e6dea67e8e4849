"""Programs of others, run over R2CC: nccl-tests, vLLM, DeepSpeed."""
