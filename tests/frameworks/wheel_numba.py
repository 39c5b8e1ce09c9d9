"""Numba, installed beside the wheel, in a program that connects by itself: warpline.connect(), then what it always does."""

import warpline

connection = warpline.connect()  # first: Numba looks for the driver when it is imported

import numpy as np
from cases import case
from numba import cuda

# Only `warpline run` asks compilers for line information by itself, without which machine code has no PTX.
LINES = {"lineinfo": True}


@cuda.jit(**LINES)
def _squares(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= x[i]


@warpline.remote
def squares(x):
    on_device = cuda.to_device(x)
    _squares[8, 128](on_device)
    return on_device.copy_to_host()


def devices():
    assert connection.started
    assert [device.name for device in cuda.gpus] == [device.name for device in warpline.devices()]


def add():
    @cuda.jit(**LINES)
    def kernel(a, b, c):
        i = cuda.grid(1)
        if i < c.size:
            c[i] = a[i] + b[i]

    a = np.arange(1000, dtype=np.float32)
    c = np.zeros_like(a)
    kernel[8, 128](a, 2 * a, c)
    assert (c == 3 * a).all()


def memory_on_the_device():
    @cuda.jit(**LINES)
    def scale(x, factor):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            x[i] *= factor

    x = np.arange(5000, dtype=np.float64)
    on_device = cuda.to_device(x)
    for _ in range(3):
        scale[4, 64](on_device, 2.0)
    assert (on_device.copy_to_host() == 8 * x).all()
    assert cuda.current_context().get_memory_info().total == warpline.devices()[0].total_bytes


def remote_function():
    x = np.arange(1000, dtype=np.int64)
    assert (squares(x) == x * x).all()


if __name__ == "__main__":  # the processes of remote functions import this file, too
    for check in devices, add, memory_on_the_device, remote_function:
        case(check)
