"""JAX: kernels compiled by XLA's own compiler; the GPU found by NVML and by the files of NVIDIA's driver."""

import jax
import jax.numpy as jnp
import numpy as np
from cases import case

rng = np.random.default_rng(1)
assert jax.devices()[0].platform == "gpu", jax.devices()


@case
def elementwise():
    x = rng.random(500).astype(np.float32)
    assert np.allclose(np.asarray(jax.jit(lambda x: 2 * jnp.sin(x) + jnp.exp(x))(x)), 2 * np.sin(x) + np.exp(x), atol=1e-4)


@case
def reduction():
    x = rng.random(1000).astype(np.float32)
    assert np.allclose(float(jnp.sum(jnp.asarray(x))), x.sum(), rtol=1e-4)


@case
def gradient():
    assert np.allclose(float(jax.grad(lambda x: x**3)(2.0)), 12)


@case
def matrix_product():
    x = rng.random((32, 32)).astype(np.float32)
    assert np.allclose(np.asarray(jnp.asarray(x) @ jnp.asarray(x)), x @ x, atol=1e-2)


@case
def scan():
    total, _ = jax.lax.scan(lambda carry, x: (carry + x, carry), 0.0, jnp.arange(10.0))
    assert float(total) == 45


@case
def sorting():
    x = rng.random(100).astype(np.float32)
    assert (np.asarray(jnp.sort(jnp.asarray(x))) == np.sort(x)).all()


@case
def random_numbers():
    assert 0.3 < float(jax.random.uniform(jax.random.PRNGKey(0), (500,)).mean()) < 0.7


@case
def vectorized():
    assert np.allclose(np.asarray(jax.vmap(lambda a: a * a)(jnp.arange(10.0))), np.arange(10.0) ** 2)
