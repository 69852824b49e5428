"""Elementary and special functions, statistics, FFT, interpolation, complex numbers, 64-bit types."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy.signal
import jax.scipy.special as sp
from jax import lax
from jax.scipy import stats
from registry import Suite, ints, normal, uniform

suite = add = Suite("numerics")

add(
    "elementary",
    lambda x: (jnp.exp(x), jnp.sin(x), jnp.cos(x), jnp.tanh(x), jnp.expm1(x), jnp.log1p(jnp.abs(x))),
    normal(64),
)
add(
    "inverse_trig",
    lambda x: (jnp.arcsin(x), jnp.arccos(x), jnp.arctan(x), jnp.arctanh(x), jnp.arcsinh(x)),
    uniform(40, low=-0.95, high=0.95),
)
add("hyperbolic", lambda x: (jnp.sinh(x), jnp.cosh(x), jnp.arccosh(1 + jnp.abs(x)), jnp.tan(x)), normal(40))
add(
    "powers",
    lambda x: (x**3, x**0.5, x**-1.5, jnp.cbrt(x), jax.lax.rsqrt(x), jnp.hypot(x, 2.0)),
    uniform(40, low=0.1, high=5),
)
add("logsumexp", lambda x: (sp.logsumexp(x, 1), jnp.logaddexp(x[0], x[1])), normal(5, 9, scale=10))
add(
    "gamma_functions",
    lambda x: (sp.gammaln(x), sp.digamma(x), sp.gamma(x)),
    uniform(30, low=0.2, high=6),
    rel=1e-4,
)
add(
    "incomplete_gamma",
    lambda a, x: (sp.gammainc(a, x), sp.gammaincc(a, x)),
    uniform(20, low=0.5, high=4),
    uniform(20, low=0.1, high=5),
    rel=1e-4,
)
add(
    "beta_inc",
    lambda a, b, x: sp.betainc(a, b, x),
    uniform(16, low=0.5, high=3),
    uniform(16, low=0.5, high=3),
    uniform(16),
    rel=1e-4,
)
add(
    "erf_family",
    lambda x: (sp.erf(x), sp.erfc(x), sp.erfinv(x / 4), sp.ndtr(x), sp.log_ndtr(x)),
    uniform(40, low=-3, high=3),
    rel=1e-4,
)
add("bessel", lambda x: (sp.i0(x), sp.i0e(x), sp.i1(x), sp.i1e(x)), normal(30, scale=2), rel=1e-4)
add(
    "zeta_polygamma",
    lambda x: (sp.zeta(x + 1.5, 2.0), sp.polygamma(1, x + 0.5)),
    uniform(12, high=4),
    rel=1e-3,
)
add(
    "entropy_xlogy",
    lambda x, y: (sp.xlogy(x, y), sp.entr(x), sp.kl_div(x, y), sp.logit(x)),
    uniform(20, low=0.1, high=0.9),
    uniform(20, low=0.1),
)
add(
    "normal_pdf",
    lambda x: (stats.norm.logpdf(x, 0.5, 2.0), stats.norm.cdf(x), stats.norm.ppf(stats.norm.cdf(x))),
    normal(20),
    rel=1e-3,
)
add(
    "many_pdfs",
    lambda x: (stats.gamma.logpdf(x, 2.0), stats.expon.logpdf(x), stats.laplace.pdf(x), stats.cauchy.pdf(x)),
    uniform(20, low=0.1, high=4),
    rel=1e-4,
)
add("student_t", lambda x: stats.t.logpdf(x, 3.0), normal(20), rel=1e-4)
add("poisson_pmf", lambda k: stats.poisson.logpmf(k, 3.5), ints(20, high=12), rel=1e-4)
add("moments", lambda x: (x.mean(0), x.var(1), x.std(), jnp.cov(x), jnp.corrcoef(x)), normal(4, 20), rel=1e-4)
add("weighted_average", lambda x, w: jnp.average(x, 1, weights=w), normal(4, 9), uniform(9))
add("fft_1d", lambda x: (jnp.fft.fft(x), jnp.fft.ifft(x), jnp.fft.fftshift(jnp.fft.fft(x))), normal(3, 24))
add("rfft_roundtrip", lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2, n=30), normal(4, 30))
add("fft_2d", lambda x: jnp.fft.fft2(x), normal(2, 8, 12), cuda=True)
add("fft_3d_real", lambda x: jnp.fft.irfftn(jnp.fft.rfftn(x), s=(4, 6, 8)), normal(4, 6, 8))
add(
    "fft_convolution",
    lambda x, k: jax.scipy.signal.fftconvolve(x, k, mode="same"),
    normal(40),
    normal(9),
    rel=1e-4,
)
add("convolve_2d", lambda x, k: jax.scipy.signal.convolve2d(x, k, mode="valid"), normal(9, 10), normal(3, 4))
add("stft", lambda x: jax.scipy.signal.stft(x, nperseg=16)[2], normal(64), rel=1e-4)
add("detrend_welch", lambda x: jax.scipy.signal.welch(x, nperseg=32)[1], normal(128), rel=1e-3)
add(
    "complex_arithmetic",
    lambda a, b: ((a + 1j * b) * (b - 2j * a) / (a + 3 + 1j * b), jnp.abs(a + 1j * b), jnp.angle(a + 1j * b)),
    normal(20),
    normal(20),
)
add(
    "complex_functions",
    lambda a, b: [f(a + 1j * b) for f in (jnp.exp, jnp.log, jnp.sqrt, jnp.sin, jnp.cos, jnp.tanh)],
    normal(20),
    normal(20),
    rel=1e-4,
)
add("complex_power", lambda a, b: (a + 1j * b) ** (0.5 + 0.25j), normal(12), normal(12), rel=1e-4)
add(
    "f64_elementary",
    lambda x: (jnp.exp(x), jnp.log(jnp.abs(x)), jnp.sin(x), jnp.arctan2(x, 0.3), jnp.tanh(x)),
    normal(40, dtype="float64"),
    x64=True,
)
add(
    "f64_special",
    lambda x: (sp.erf(x), sp.gammaln(jnp.abs(x)), sp.digamma(jnp.abs(x) + 1)),
    normal(20, dtype="float64"),
    x64=True,
    rel=1e-10,
)
add(
    "f64_sums",
    lambda x: (x.sum(0), x.prod(1), jnp.cumsum(x), jnp.linalg.norm(x)),
    normal(6, 7, dtype="float64"),
    x64=True,
)
add(
    "int64_math",
    lambda x: (x * x, x // 7, x % 11, jnp.sort(x), x.sum()),
    ints(20, low=-(2**40), high=2**40, dtype="int64"),
    x64=True,
)
add(
    "uint64_hash",
    lambda x: (x * jnp.uint64(0x9E3779B97F4A7C15)) ^ (x >> jnp.uint64(29)),
    ints(20, high=2**60, dtype="uint64"),
    x64=True,
)
add("c128_fft", lambda x: jnp.fft.fft(x + 1j * x[::-1]), normal(20, dtype="float64"), x64=True)
add(
    "mixed_precision_x64",
    lambda a, b: (a + b, (a * 2).astype(jnp.float64) @ b),
    normal(5, dtype="float32"),
    normal(5, dtype="float64"),
    x64=True,
)
add(
    "nextafter_frexp",
    lambda x: (jnp.nextafter(x, jnp.float32(9)), jnp.frexp(x), jnp.ldexp(x, 3), jnp.signbit(x)),
    normal(20),
)
add(
    "nan_to_num",
    lambda x: (jnp.nan_to_num(1 / jnp.round(x)), jnp.isnan(jnp.log(x)), jnp.isinf(1 / jnp.round(x))),
    normal(20),
)
add("reduce_precision", lambda x: (lax.reduce_precision(x, 5, 10), lax.reduce_precision(x, 8, 7)), normal(30))
add(
    "spherical_map",
    lambda x, c: jax.scipy.ndimage.map_coordinates(x, [c[0], c[1]], order=1),
    normal(7, 8),
    uniform(2, 10, high=6),
)
add("trapezoid_vander", lambda x: (jnp.trapezoid(x, dx=0.5), jnp.vander(x, 4)), normal(9))
add("roots_of_unity", lambda n: jnp.exp(2j * jnp.pi * jnp.arange(12) / n), uniform(low=11, high=13))
