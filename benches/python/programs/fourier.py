"""Fourier transforms."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from programs.registry import Draw, Made, program

GROUP = "FFT"


@program(GROUP)
def spectral_filter(draw: Draw) -> Made:
    n, rows = 2 ** draw.size(8, 16), draw.size(1, 32)

    def f(x: Any, gain: Any) -> Any:
        return jnp.fft.irfft(jnp.fft.rfft(x) * gain)

    return f, (draw.normal(rows, n), draw.uniform(n // 2 + 1))


@program(GROUP)
def image_convolution(draw: Draw) -> Made:
    side = draw.size(60, 600, 4)

    def f(x: Any, y: Any) -> Any:
        return jnp.fft.ifft2(jnp.fft.fft2(x) * jnp.fft.fft2(y)).real

    return f, (draw.normal(side, side), draw.normal(side, side))


@program(GROUP)
def short_time_spectrum(draw: Draw) -> Made:
    frames, width = draw.size(50, 1000), 2 ** draw.size(6, 11)

    def f(x: Any) -> Any:
        at = jnp.arange(frames)[:, None] * (width // 4) + jnp.arange(width)
        return jnp.log(jnp.abs(jnp.fft.rfft(x[at] * jnp.hanning(width))) + 1e-3)

    return f, (draw.normal(frames * width // 4 + width),)


@program(GROUP)
def navier_stokes_step(draw: Draw) -> Made:
    n = draw.size(32, 256, 16)

    def f(w: Any) -> Any:
        k = jnp.fft.fftfreq(n) * n
        kx, ky = k[:, None], k[None, :]
        square = jnp.where(kx**2 + ky**2 == 0, 1.0, kx**2 + ky**2)

        def step(_: Any, h: Any) -> Any:
            p = h / square
            u, v = jnp.fft.ifft2(1j * ky * p).real, jnp.fft.ifft2(-1j * kx * p).real
            x, y = jnp.fft.ifft2(1j * kx * h).real, jnp.fft.ifft2(1j * ky * h).real
            return (h - 1e-3 * jnp.fft.fft2(u * x + v * y)) / (1 + 1e-5 * square)

        return jnp.fft.ifft2(jax.lax.fori_loop(0, 4, step, jnp.fft.fft2(w))).real

    return f, (draw.normal(n, n),)


@program(GROUP)
def prime_length(draw: Draw) -> Made:
    n = int(draw.rng.choice([509, 1021, 2039, 4093, 8191]))

    def f(x: Any) -> Any:
        return jnp.fft.fft(x)

    return f, (draw.normal(16, n) + 1j * draw.normal(16, n),)


@program(GROUP)
def volume(draw: Draw) -> Made:
    n = draw.size(16, 80, 4)

    def f(x: Any) -> Any:
        return jnp.abs(jnp.fft.rfftn(x)).astype(np.float32)

    return f, (draw.normal(n, n, n),)
