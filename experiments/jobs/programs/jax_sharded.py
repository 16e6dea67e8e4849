"""A training step that JAX's compiler splits over all ranks (pjit): the batch and every matrix lie in parts."""

from __future__ import annotations

import missing  # noqa: F401 - the first of these: see there

# isort: split
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jax_ranks import bits, join, options
from record import Record

BATCH = 512
"""Of all ranks."""


def main() -> None:
    parser = options(__doc__, 60)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=2048)
    args = parser.parse_args()
    mesh = join(args.cpu)
    parts = NamedSharding(mesh, PartitionSpec("ranks"))
    whole = NamedSharding(mesh, PartitionSpec())
    shape = (args.hidden, args.hidden)

    def drawn(seed: int, rows: int) -> jax.Array:
        """The same on every rank, of which each keeps its part."""
        data = np.random.default_rng(seed).standard_normal((rows, args.hidden), dtype=np.float32)
        return jax.make_array_from_callback(data.shape, parts, lambda place: data[place])

    def loss_of(matrices: list[jax.Array], batch: jax.Array) -> jax.Array:
        x = batch
        for matrix in matrices:
            x = jnp.tanh(x @ matrix) + x
        return jnp.mean((x - jnp.roll(batch, 1, axis=1)) ** 2)

    @jax.jit
    def trained(matrices: list[jax.Array], batch: jax.Array) -> tuple[list[jax.Array], jax.Array]:
        loss, slopes = jax.value_and_grad(loss_of)(matrices, batch)
        changed = [matrix - 0.1 * slope for matrix, slope in zip(matrices, slopes, strict=True)]
        return jax.lax.with_sharding_constraint(changed, parts), jax.lax.with_sharding_constraint(loss, whole)

    matrices = [drawn(layer, shape[0]) * np.float32(args.hidden**-0.5) for layer in range(args.layers)]
    record = Record()
    for step in range(args.steps):
        matrices, loss = trained(matrices, drawn(1000 + step, BATCH))
        record.step(step, bits([loss, *matrices]), float(loss.addressable_data(0)))
    record.end()
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
