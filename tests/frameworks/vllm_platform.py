"""vLLM: which platform it finds, by NVML and before CUDA begins, and what it asks of the device."""

from cases import case
from vllm.platforms import current_platform


@case
def platform():
    import torch

    assert current_platform.is_cuda() and "Nvml" in type(current_platform).__name__, current_platform
    assert not torch.cuda.is_initialized()


@case
def device():
    capability = current_platform.get_device_capability()
    assert capability is not None and capability.major >= 8 and current_platform.has_device_capability(80), capability
    assert current_platform.get_device_name(0) and current_platform.get_device_uuid(0).startswith("GPU-")
    assert current_platform.is_fully_connected([0])


@case
def memory():
    import torch
    from vllm.utils.mem_utils import MemorySnapshot

    total = current_platform.get_device_total_memory(0)
    assert 2**30 < total and torch.cuda.mem_get_info()[1] == total, (total, torch.cuda.mem_get_info())
    before = MemorySnapshot()
    assert before.total_memory == total
    held = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    assert (MemorySnapshot() - before).torch_memory >= 64 << 20
    assert held.numel() == 64 << 20


@case
def import_of_everything():
    import vllm
    from vllm.config import ModelConfig  # noqa: F401 with all that comes with it

    assert vllm.__version__ == "0.32.0" and vllm.LLM and vllm.SamplingParams(temperature=0).temperature == 0
