"""PyTorch on a real GPU: models that train, beside the same on the processor, and what frameworks lean on (B2, A6). Prints one line a case
and how long it took; the lines must be the same natively and through a server."""

import pathlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "frameworks"))
from cases import case  # noqa: E402


def close(a, b, tolerance=1e-3):
    a, b = a.detach().double().cpu(), b.detach().double().cpu()
    error = float((a - b).norm() / b.norm().clamp_min(1e-12))
    assert error < tolerance, f"relative error {error}"


def timed(function):
    """A case, with the time of a second run of it."""
    def run():
        function()
        torch.cuda.synchronize()
        began = time.monotonic()
        function()
        torch.cuda.synchronize()
        print(f"  {function.__name__}: again in {time.monotonic() - began:.3f} s")
    run.__name__ = function.__name__
    return case(run)


def trained(model, batches, device, amp=False):
    """The losses of a few steps, all drawn from the same numbers."""
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for x, y in batches:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=amp):
            loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def both(make, shape, classes=10, steps=5, tolerance=2e-2, **more):
    torch.manual_seed(1)
    batches = [(torch.randn(shape).pin_memory(), torch.randint(classes, (shape[0],)).pin_memory()) for _ in range(steps)]
    torch.manual_seed(2)
    here = trained(make(), batches, "cuda", **more)
    torch.manual_seed(2)
    close(here, trained(make(), batches, "cpu"), tolerance)


@timed
def mlp():
    both(lambda: nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 10)), (64, 256), steps=20)


@timed
def convolutions():
    both(lambda: nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.BatchNorm2d(64), nn.ReLU(),
                               nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)), (32, 3, 64, 64))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(128, 8, 256, batch_first=True, dropout=0.0)
        self.layers, self.out = nn.TransformerEncoder(layer, 2), nn.Linear(128, 10)

    def forward(self, x):
        return self.out(self.layers(x).mean(1))


@timed
def transformer():
    both(Attention, (16, 64, 128))


@timed
def mixed_precision():
    both(Attention, (16, 64, 128), tolerance=5e-2, amp=True)


@timed
def libraries():
    torch.manual_seed(3)
    a, b = torch.randn(300, 300), torch.randn(300, 300)
    close(a.cuda() @ b.cuda(), a @ b)
    close(torch.fft.rfft2(a.cuda()).abs(), torch.fft.rfft2(a).abs())
    close(torch.linalg.solve(a.cuda(), b.cuda()), torch.linalg.solve(a.double(), b.double()), 1e-2)
    close(torch.linalg.svdvals(a.cuda()), torch.linalg.svdvals(a))
    close(torch.sparse.mm(a.relu().to_sparse_csr().cuda(), b.cuda()), a.relu() @ b)
    close(a.cuda().flatten().sort()[0], a.flatten().sort()[0])
    close(a.cuda().cumsum(1), a.cumsum(1))
    q = torch.randn(2, 4, 128, 64)
    close(functional.scaled_dot_product_attention(*[q.cuda().half()] * 3), functional.scaled_dot_product_attention(q, q, q), 1e-2)


@timed
def graphs():
    torch.manual_seed(4)
    layer = nn.Linear(256, 256).cuda()
    x = torch.randn(32, 256, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        layer(x)
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = layer(x).relu().sum()
    for n in range(200):
        x.fill_(n / 100)
        graph.replay()
    close(y, layer(torch.full((32, 256), 1.99, device="cuda")).relu().sum())


@case
def compiled():
    torch.manual_seed(5)
    def function(x):
        return torch.softmax(x * 2 + x.sin(), -1).sum(0)
    x = torch.randn(128, 1000, device="cuda")
    close(torch.compile(function)(x), function(x))


@timed
def streams_and_events():
    streams, events = [torch.cuda.Stream() for _ in range(4)], []
    x = torch.ones(1 << 20, device="cuda")
    torch.cuda.synchronize()
    parts = []
    for n, stream in enumerate(streams):
        with torch.cuda.stream(stream):
            parts.append((x * n).sum())
            events.append(torch.cuda.Event(enable_timing=True))
            events[-1].record()
    for event in events:
        event.synchronize()
        assert event.query()
    assert [float(p) for p in parts] == [n * float(1 << 20) for n in range(4)]
    assert events[0].elapsed_time(events[-1]) > -1000


@timed
def host_copies():
    big = torch.randint(256, (64 << 20,), dtype=torch.uint8)
    there = big.cuda()
    assert torch.equal(there.cpu(), big)
    pinned = torch.empty_like(big).pin_memory()
    pinned.copy_(there, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(pinned, big)


@timed
def small_steps():
    layer, x = nn.Linear(64, 64).cuda(), torch.ones(8, 64, device="cuda")
    total = 0.0
    for _ in range(200):
        total += layer(x).mean().item()
    assert total == total


@timed
def long_queue():
    x = torch.zeros(16, device="cuda")
    for _ in range(20000):
        x += 1
    assert float(x.sum()) == 16 * 20000


@case
def out_of_memory():
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        assert float(torch.ones(4, device="cuda").sum()) == 4
        return
    raise AssertionError("a pebibyte was to be had")


@case
def language_model():
    import transformers
    torch.manual_seed(6)
    configuration = transformers.GPT2Config(n_layer=4, n_head=8, n_embd=256, vocab_size=1000)
    model = transformers.GPT2LMHeadModel(configuration).eval()
    words = torch.randint(1000, (1, 16))
    with torch.no_grad():
        close(model.cuda()(words.cuda()).logits, model.cpu()(words).logits, 1e-2)
        began = time.monotonic()
        model.cuda().generate(words.cuda(), max_new_tokens=64, do_sample=False, pad_token_id=0)
        print(f"  language_model: 64 words in {time.monotonic() - began:.3f} s")


def told():
    properties = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    print(properties.name, properties.multi_processor_count, properties.total_memory, torch.version.cuda, torch.backends.cudnn.version())


case(told)
