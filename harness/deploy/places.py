"""Where `r2cc deploy` puts what runs on a host, from `current` on."""

from __future__ import annotations

BENCH, SAMPLER = "bin/r2cc_bench", "bin/r2cc_sampler"
NET, NCCL = "lib/libr2cc_net.so", "lib/libnccl.so.2"
PROGRESS = "lib/libr2cc_progress.so"
HARNESS = "share/harness"
"""The ranks of GPU workloads are Python files that the hosts' own Python runs."""
WORKLOADS = f"{HARNESS}/workloads"
NVML = "share/nvidia/pynvml.py"
"""What the sampler of GPUs needs, for hosts whose Python has none."""
RANK = f"{WORKLOADS}/rank.py"
