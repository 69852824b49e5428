"""Writes the StableHLO artifacts of `tests/data/stablehlo`, which `tests/stablehlo.rs` reads.

  JAX_PLATFORMS=hlorun,cpu python tests/python/tools/make_stablehlo.py

Each is what JAX hands the plugin for a function of this file; made by jaxlib 0.10.2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hlorun._jax_plugin import compiling

FOLDER = Path(__file__).resolve().parents[2] / "data" / "stablehlo"


def control(x: Any, n: Any) -> Any:
    """Loops and branches that use values from outside."""
    scale = jnp.sin(x).sum()

    def step(carry: Any, row: Any) -> Any:
        return carry * scale + row, jnp.where(row > 0, carry, row)

    last, rows = jax.lax.scan(step, jnp.zeros(3), x)
    chosen = jax.lax.switch(n, [lambda: last * scale, lambda: last + x[0], lambda: jnp.ones(3)])
    count = jax.lax.while_loop(lambda i: i * scale < 10, lambda i: i + 1, n)
    return chosen, rows, count, jax.lax.cond(n > 1, jnp.sort, jnp.negative, last)


def arrays(x: Any, index: Any, image: Any, kernel: Any) -> Any:
    """Movements, products, windows, and constants of several types."""
    found = x.at[index].add(2.5)[:, ::-1]
    value, where = jax.lax.top_k(x[0], 2)
    pooled = jax.lax.reduce_window(image, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    moved = jax.lax.conv_general_dilated(
        image, kernel, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    bits = jnp.array([True, False, True]) & (x[0] > 0)
    small = jnp.array([1.5, -2.0], jnp.bfloat16) * jnp.array([3, 4], jnp.uint8)
    product = jnp.matmul(x, x.T, precision="highest")
    factor = jnp.linalg.cholesky(product + 4 * jnp.eye(4))
    return found, value, where, pooled, moved, bits, small, factor, jax.lax.erf(x), x.astype(complex) * 2j


def main() -> None:
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    convert = compiling._module_of
    seen: list[bytes] = []

    def noting(artifact: bytes) -> Any:
        seen.append(artifact)
        return convert(artifact)

    compiling._module_of = noting
    x = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
    image = np.ones((1, 6, 6, 2), np.float32)
    inputs = {
        control: (x, 2),
        arrays: (x, np.array([0, 2]), image, np.ones((3, 3, 2, 4), np.float32)),
    }
    for function, arguments in inputs.items():
        jax.jit(function, donate_argnums=0).lower(*arguments).compile()
        (FOLDER / f"{function.__name__}.mlirbc").write_bytes(seen[-1])


if __name__ == "__main__":
    main()
