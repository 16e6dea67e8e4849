"""How the JAX programs start: options, all ranks as one device mesh, and results as bytes."""

from __future__ import annotations

import argparse
import os
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# Read when XLA is loaded: no kernel whose sums depend on timing, and none chosen by a measurement.
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0".strip()
)

import jax
import jax.numpy as jnp
import numpy as np


def options(about: str | None, steps: int) -> argparse.ArgumentParser:
    """`--steps` and `--cpu`; each program adds its own."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--cpu", action="store_true", help="gloo instead of NCCL, for a test without GPUs")
    return parser


def join(cpu: bool) -> jax.sharding.Mesh:
    """A mesh with the one axis `ranks`, a device of each rank."""
    if cpu:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    else:
        jax.config.update("jax_platforms", "cuda")
    jax.config.update("jax_default_matmul_precision", "highest")
    jax.distributed.initialize(
        coordinator_address=f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
        num_processes=int(os.environ["WORLD_SIZE"]),
        process_id=int(os.environ["RANK"]),
        local_device_ids=None if cpu else [int(os.environ.get("LOCAL_RANK", "0"))],
    )
    return jax.make_mesh((jax.device_count(),), ("ranks",), axis_types=(jax.sharding.AxisType.Auto,))


@jax.jit
def _sum(part: jax.Array) -> jax.Array:
    number = jax.lax.bitcast_convert_type(part.ravel(), jnp.uint32)
    return jnp.sum(number * (2 * jnp.arange(number.size, dtype=jnp.uint32) + 1), dtype=jnp.uint32)


def bits(arrays: Any) -> bytes:
    """A sum over the bits of this rank's part of each array of 32-bit numbers, weighed by place."""
    sums = [_sum(each.addressable_data(0)) for each in jax.tree.leaves(arrays)]
    return b"".join(np.asarray(each).tobytes() for each in sums)
