"""PyTorch on a device that takes every image and computes nothing (SOFTGPU_EXECUTE=0): its own kernels have no PTX. What is tested are
the calls, the allocators and what the host does, not results of kernels; copies are made, and looked at."""

import gc
import io
import os
import threading

import torch
from cases import case
from torch import nn

CUDA = torch.device("cuda")
# As the entry in frameworks.toml has it: which allocator PyTorch shall use.
BACKEND = "cudaMallocAsync" if "cudaMallocAsync" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "") else "native"
EXPANDABLE = "expandable_segments:True" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")


def small_model():
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 10)).to(CUDA)


def device():
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    found = torch.cuda.get_device_properties(0)
    assert found.total_memory > 2**30 and found.multi_processor_count > 0 and (found.major, found.minor) == torch.cuda.get_device_capability()
    assert torch.cuda.get_device_name() == found.name and len(str(found.uuid)) == 36
    assert torch.cuda.get_allocator_backend() == BACKEND


def copies():
    host = torch.arange(100000, dtype=torch.float32).reshape(100, 1000)
    there = host.to(CUDA)
    assert torch.equal(there.cpu(), host) and torch.equal(there[3:5].cpu(), host[3:5])
    pinned = host.pin_memory()
    assert pinned.is_pinned() and not host.is_pinned()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        again = pinned.to(CUDA, non_blocking=True)
        back = torch.empty_like(pinned, pin_memory=True)
        back.copy_(again, non_blocking=True)
    stream.synchronize()
    assert torch.equal(back, host)


def streams_and_events():
    first, second = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(first):
        start.record()
        x = torch.ones(1000, device=CUDA)
        end.record()
    second.wait_event(end)
    with torch.cuda.stream(second):
        y = x + 1
    y.record_stream(first)
    torch.cuda.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0


def training():
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(3):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(torch.randn(32, 64, device=CUDA)), torch.zeros(32, dtype=torch.long, device=CUDA))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def convolution_and_lstm():
    image = torch.randn(4, 3, 32, 32, device=CUDA, requires_grad=True)
    nn.Conv2d(3, 8, 3).to(CUDA)(image).sum().backward()
    assert image.grad.shape == image.shape
    out, (_, cell) = nn.LSTM(16, 32, 2).to(CUDA)(torch.randn(5, 4, 16, device=CUDA))
    assert out.shape == (5, 4, 32) and cell.shape == (2, 4, 32)


def attention_and_fft():
    q = torch.randn(2, 4, 64, 32, device=CUDA, dtype=torch.float16, requires_grad=True)
    nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    assert q.grad.shape == q.shape
    assert torch.fft.rfft(torch.randn(8, 256, device=CUDA)).shape == (8, 129)


def transformer():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=None)
    model = LlamaForCausalLM(config).to(CUDA)
    tokens = torch.randint(0, 512, (2, 16)).to(CUDA)
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    assert model.model.layers[0].mlp.up_proj.weight.grad.shape == (128, 64)
    # Generation by hand, with the cache of keys and values: generate() asks the device whether it is done, which nothing computes.
    model.eval()
    with torch.no_grad():
        said = model(input_ids=tokens, use_cache=True)
        for _ in range(4):
            newest = said.logits[:, -1:].argmax(-1)
            tokens = torch.cat([tokens, newest], dim=1)
            said = model(input_ids=newest, past_key_values=said.past_key_values, use_cache=True)
    assert tokens.shape == (2, 20) and said.past_key_values.get_seq_length() == 20


def memory_figures():
    gc.collect()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    kept = torch.empty(64 << 20, dtype=torch.uint8, device=CUDA)
    assert torch.cuda.memory_allocated() - before == 64 << 20
    assert torch.cuda.max_memory_allocated() >= before + (64 << 20) and torch.cuda.memory_reserved() >= 64 << 20
    torch.cuda.synchronize()
    assert free - torch.cuda.mem_get_info()[0] >= 60 << 20, (free, torch.cuda.mem_get_info())
    assert "Allocated memory" in torch.cuda.memory_summary()
    if BACKEND == "native":
        segments = torch.cuda.memory_snapshot()
        assert any(s["total_size"] >= 64 << 20 for s in segments)
        assert any(s.get("is_expandable") for s in segments) == EXPANDABLE
    del kept
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before
    assert free - torch.cuda.mem_get_info()[0] <= 32 << 20, "the memory was not given back"


def too_much_memory():
    total = torch.cuda.mem_get_info()[1]
    try:
        torch.empty(total, dtype=torch.uint8, device=CUDA), torch.empty(total, dtype=torch.uint8, device=CUDA)
    except torch.OutOfMemoryError as refused:
        assert "out of memory" in str(refused).lower(), refused
    else:
        raise AssertionError("twice the device's memory was given")
    torch.ones(10, device=CUDA).cpu()  # and it goes on


def fragments():
    """Many sizes, kept and given back in another order, by two streams."""
    other, kept = torch.cuda.Stream(), []
    for i in range(400):
        kept.append(torch.empty((i * 7919) % 500000 + 1, dtype=torch.uint8, device=CUDA))
        if i % 3 == 0:
            with torch.cuda.stream(other):
                kept.append(torch.empty(((i * 104729) % 8 + 1) << 20, dtype=torch.uint8, device=CUDA))
        if len(kept) > 40:
            del kept[:: 2]
    torch.cuda.synchronize()
    kept.clear()
    torch.cuda.empty_cache()


def graphs():
    static = torch.zeros(32, 64, device=CUDA)
    model = small_model().eval()
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm), torch.no_grad():
        model(static)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        out = model(static)
    for _ in range(5):
        static.copy_(torch.randn(32, 64))
        graph.replay()
    torch.cuda.synchronize()
    assert out.shape == (32, 10)
    callable_ = torch.cuda.make_graphed_callables(small_model(), (torch.randn(32, 64, device=CUDA, requires_grad=True),))
    callable_(torch.randn(32, 64, device=CUDA, requires_grad=True)).sum().backward()
    del graph, callable_


def autograd_threads():
    """Each thread has its own backward pass; CUDA's part of all of them runs in PyTorch's own thread of the device."""
    failed = []

    def work(number):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                model = small_model()
                for _ in range(5):
                    model(torch.randn(16, 64, device=CUDA)).sum().backward()
                torch.cuda.current_stream().synchronize()
        except BaseException as error:
            failed.append((number, error))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((100,), float(index * index))


def load(context):
    loader = torch.utils.data.DataLoader(Squares(), batch_size=8, num_workers=2, pin_memory=True, multiprocessing_context=context)
    seen = []
    for batch in loader:
        assert batch.is_pinned()
        seen += batch.to(CUDA, non_blocking=True).cpu()[:, 0].tolist()  # of a part a kernel would make a copy
    assert seen == [float(i * i) for i in range(64)], seen


def profiler_without_cuda():
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        (torch.ones(10, device=CUDA) * 2).cpu()
    assert any("aten::mul" in entry.key for entry in found.key_averages())


def in_another_process(queue):
    """In a process of its own, which inherits nothing of CUDA."""
    try:
        queue.put(torch.arange(5.0).to(CUDA).cpu().tolist())
    except BaseException as error:
        queue.put(repr(error))


def fork_after_cuda():
    """A child of fork cannot use CUDA, and PyTorch says so before anything is asked of it; one of spawn can."""
    for method, wanted in (("fork", "Cannot re-initialize CUDA in forked subprocess"), ("spawn", [0.0, 1.0, 2.0, 3.0, 4.0])):
        context = torch.multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        process = context.Process(target=in_another_process, args=(queue,))
        process.start()
        said = queue.get()
        process.join()
        assert said == wanted if method == "spawn" else wanted in said, said


def saving():
    file = io.BytesIO()
    model = small_model()
    torch.save(model.state_dict(), file)
    file.seek(0)
    again = torch.load(file, map_location="cuda")
    assert all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(again.values(), model.state_dict().values()))


def loader_fork():
    load("fork")


def loader_spawn():
    load("spawn")


# Processes that spawn starts read this file again, and stop here.
if __name__ == "__main__":
    for function in (device, copies, streams_and_events, training, convolution_and_lstm, attention_and_fft, transformer, memory_figures,
                     too_much_memory, fragments, graphs, autograd_threads, profiler_without_cuda, saving, loader_fork, loader_spawn,
                     fork_after_cuda):
        case(function)
