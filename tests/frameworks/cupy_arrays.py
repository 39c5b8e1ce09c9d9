"""Arrays of CuPy: kernels compiled by NVRTC, which it finds by dlsym(), its own binaries (CUB, Thrust) and CUDA's libraries."""

import cupy as cp
import numpy as np
from cases import case

rng = np.random.default_rng(1)


@case
def sums():
    a = cp.arange(100000, dtype=cp.float64)
    assert float(a.sum()) == 4999950000.0
    assert float((2 * a).sum()) == 9999900000.0


@case
def sums_of_rows():
    x = rng.random((50, 60))
    assert np.allclose(cp.asarray(x).sum(axis=0).get(), x.sum(axis=0))


@case
def sorting():
    x = rng.random(1000)
    assert (cp.sort(cp.asarray(x)).get() == np.sort(x)).all()
    assert (cp.argsort(cp.asarray(x)).get() == np.argsort(x)).all()


@case
def elementwise_kernel():
    kernel = cp.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = x * y + 1", "product_and_one")
    a = cp.arange(100, dtype=cp.float32)
    assert (kernel(a, a).get() == np.arange(100, dtype=np.float32) ** 2 + 1).all()


@case
def raw_kernel():
    source = 'extern "C" __global__ void twice(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }'
    a = cp.arange(100, dtype=cp.float32)
    cp.RawKernel(source, "twice")((1,), (128,), (a, 100))
    assert (a.get() == 2 * np.arange(100)).all()


@case
def scan():
    x = rng.random(1000)
    assert np.allclose(cp.cumsum(cp.asarray(x)).get(), np.cumsum(x))


@case
def graph():
    stream = cp.cuda.Stream(non_blocking=True)
    a = cp.ones(10, dtype=cp.float32)
    kernel = cp.ElementwiseKernel("", "raw float32 x", "x[i] += 1", "increment")
    kernel(a, size=10)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        kernel(a, size=10)
        captured = stream.end_capture()
        captured.launch()
        captured.launch()
    stream.synchronize()
    assert (a.get() == 4).all()


@case
def managed():
    with cp.cuda.using_allocator(cp.cuda.MemoryPool(cp.cuda.malloc_managed).malloc):
        assert ((cp.ones(100, dtype=cp.float32) + 1).get() == 2).all()


@case
def cufft():
    x = rng.random(256) + 1j
    assert np.allclose(cp.fft.fft(cp.asarray(x)).get(), np.fft.fft(x))


@case
def cusparse():
    from cupyx.scipy import sparse

    x = (rng.random((40, 40)) < 0.1) * rng.random((40, 40))
    assert np.allclose((sparse.csr_matrix(cp.asarray(x)) @ cp.ones(40)).get(), x.sum(axis=1))


@case
def cublas():
    x = rng.random((32, 48)).astype(np.float32)
    assert np.allclose((cp.asarray(x) @ cp.asarray(x.T)).get(), x @ x.T, atol=1e-3)
