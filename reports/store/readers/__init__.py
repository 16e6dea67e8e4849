"""What other tools write, read as figures: nccl-tests and Megatron-LM, whatever carried their lines here."""
