"""Triton kernels and what torch.compile makes: computed on the software GPU, and compared. Tensors come from the host and go back there:
PyTorch's own kernels have no PTX for the device."""

import torch
import triton
import triton.language as tl
from cases import case


@triton.jit
def scaled_sum(x, y, out, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * factor + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def row_softmax(x, out, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * columns + at, mask=at < columns, other=-float("inf"))
    power = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + tl.program_id(0) * columns + at, power / tl.sum(power, axis=0), mask=at < columns)


@triton.jit
def product(a, b, c, N: tl.constexpr):
    row, column = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(c + row * N + column, tl.dot(tl.load(a + row * N + column), tl.load(b + row * N + column)))


def there(tensor):
    return tensor.to("cuda")


@case
def elementwise():
    x, y = torch.randn(1000), torch.randn(1000)
    out = there(torch.zeros(1000))
    scaled_sum[(4,)](there(x), there(y), out, 1000, 2.5, BLOCK=256)
    assert torch.allclose(out.cpu(), x * 2.5 + y, atol=1e-5)


@case
def softmax():
    x = torch.randn(8, 100)
    out = there(torch.zeros(8, 100))
    row_softmax[(8,)](there(x), out, 100, BLOCK=128)
    assert torch.allclose(out.cpu(), torch.softmax(x, 1), atol=1e-5)


@case
def matrix_product():
    a, b = torch.randn(32, 32).half(), torch.randn(32, 32).half()
    c = there(torch.zeros(32, 32))
    product[(1,)](there(a), there(b), c, N=32)
    assert torch.allclose(c.cpu(), a.float() @ b.float(), atol=1e-2)


@case
def compiled():
    function = torch.compile(lambda x, y: torch.sin(x) * y + torch.relu(x))
    x, y = torch.randn(500), torch.randn(500)
    assert torch.allclose(function(there(x), there(y)).cpu(), torch.sin(x) * y + torch.relu(x), atol=1e-4)


@case
def compiled_reduction():
    function = torch.compile(lambda x: (x * x).sum(dim=1))
    x = torch.randn(16, 300)
    assert torch.allclose(function(there(x)).cpu(), (x * x).sum(dim=1), rtol=1e-4)
