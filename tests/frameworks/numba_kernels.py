"""Kernels of numba-cuda: compiled to PTX by NVVM or NVRTC, linked by nvJitLink, launched through the driver API."""

import math

import numpy as np
from cases import case
from numba import cuda, float32, vectorize


@case
def add():
    @cuda.jit
    def kernel(a, b, c):
        i = cuda.grid(1)
        if i < c.size:
            c[i] = a[i] + b[i]

    a = np.arange(1000, dtype=np.float32)
    c = np.zeros_like(a)
    kernel[8, 128](a, 2 * a, c)
    assert (c == 3 * a).all()


@case
def shared_memory():
    @cuda.jit
    def kernel(a, out):
        sums = cuda.shared.array(128, float32)
        t = cuda.threadIdx.x
        sums[t] = a[cuda.grid(1)]
        cuda.syncthreads()
        n = 64
        while n > 0:
            if t < n:
                sums[t] += sums[t + n]
            cuda.syncthreads()
            n //= 2
        if t == 0:
            out[cuda.blockIdx.x] = sums[0]

    a = np.arange(1024, dtype=np.float32)
    out = np.zeros(8, dtype=np.float32)
    kernel[8, 128](a, out)
    assert (out == a.reshape(8, 128).sum(axis=1)).all()


@case
def atomics():
    @cuda.jit
    def kernel(histogram, x):
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.add(histogram, x[i], 1)

    x = np.arange(1000) * 7 % 10
    histogram = np.zeros(10, dtype=np.int64)
    kernel[8, 128](histogram, x)
    assert (histogram == np.bincount(x, minlength=10)).all()


@case
def device_functions_and_mathematics():
    @cuda.jit(device=True)
    def inner(x):
        return math.sin(x) + math.exp(-x)

    @cuda.jit
    def kernel(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] = inner(a[i])

    a = np.linspace(0, 3, 200)
    expected = np.sin(a) + np.exp(-a)
    kernel[2, 128](a)
    assert np.allclose(a, expected)


@case
def vectorized():
    @vectorize(["float32(float32, float32)"], target="cuda")
    def function(a, b):
        return a * b + 1

    a = np.arange(100, dtype=np.float32)
    assert (function(a, a) == a * a + 1).all()


@case
def reduction():
    assert cuda.reduce(lambda a, b: a + b)(np.arange(1000, dtype=np.float64)) == 499500


@case
def streams_and_events():
    stream, event = cuda.stream(), cuda.event()
    a = np.arange(100.0)
    there = cuda.to_device(a, stream=stream)
    event.record(stream)
    event.synchronize()
    assert (there.copy_to_host(stream=stream) == a).all()


@case
def pinned():
    a = cuda.pinned_array(100, dtype=np.float32)
    a[:] = 3
    assert (cuda.to_device(a).copy_to_host() == 3).all()


def increment(a):
    @cuda.jit
    def kernel(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] += 1

    a[:] = 1
    kernel[1, 128](a)
    cuda.synchronize()
    assert (a == 2).all()


@case
def mapped():
    increment(cuda.mapped_array(100, dtype=np.float32))


@case
def managed():
    increment(cuda.managed_array(100, dtype=np.float32))


@case
def whole_grid():
    @cuda.jit
    def kernel(a):
        a[cuda.grid(1)] = 1
        cuda.cg.this_grid().sync()
        if cuda.grid(1) == 0:
            total = 0.0
            for i in range(a.size):
                total += a[i]
            a[0] = total

    a = np.zeros(256)
    kernel[2, 128](a)
    assert a[0] == 256
