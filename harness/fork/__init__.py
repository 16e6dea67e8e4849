"""Which NCCL we fork: fetch it, verify it against the pin, patch it, re-create the patches."""
