"""JAX's psum over all ranks, one a step; every element is checked."""

from __future__ import annotations

import sys

import missing  # noqa: F401 - the first of these: see there

# isort: split
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jax_ranks import bits, join, options
from record import Record


def main() -> int:
    parser = options(__doc__, 120)
    parser.add_argument("--mib", type=int, default=64, help="size of one rank's array")
    args = parser.parse_args()
    mesh = join(args.cpu)
    ranks = jax.device_count()

    def added(step: jax.Array) -> tuple[jax.Array, jax.Array]:
        # Whole numbers far below 2^24: their sum is exact in any order.
        numbers = ((jnp.arange(args.mib << 18) + step) % 1009).astype(jnp.float32)
        total = jax.lax.psum(numbers * (jax.lax.axis_index("ranks") + 1), "ranks")
        return total, jnp.sum(total != numbers * (ranks * (ranks + 1) // 2))[None]

    parts = (PartitionSpec("ranks"), PartitionSpec("ranks"))
    # XLA does not see that a sum is the same everywhere once it is called a part.
    run = jax.jit(jax.shard_map(added, mesh=mesh, in_specs=PartitionSpec(), out_specs=parts, check_vma=False))
    record = Record()
    for step in range(args.steps):
        total, wrong = run(jnp.int32(step))
        record.step(step, bits(total))
        if count := int(wrong.addressable_data(0)[0]):
            print(f"step {step}: {count} wrong elements", file=sys.stderr)
            return 1
    record.end()
    jax.distributed.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
