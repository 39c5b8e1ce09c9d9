"""What a step of training waits for (B2), on a device that takes every image and computes nothing: each model is trained for 10 and for
30 steps in processes of their own, and what the longer run waits for more is the steps'. CUDA itself waits for a copy from pageable
memory, for .item(), and for nothing else here."""

import collections
import functools
import json
import os
import subprocess
import sys
import tempfile

from cases import case

SHORT, LONG = 10, 30
# Model and what is done with it: the calls that each step waits for. Accesses to page-locked memory that kernels use are counted apart.
STEPS = {
    "mlp": {"cuStreamSynchronize": 1},                # the batch, from pageable memory
    "mlp_pinned": {},                                 # from page-locked memory
    "mlp_amp_fused_item": {"cuStreamSynchronize": 2},
    "convolution_pinned_item": {"wlReadAhead": 1},    # the wait; with it comes page-locked memory of cuDNN's, which kernels use
    "attention_item": {"cuStreamSynchronize": 2},
    # Clipping makes page-locked memory the kernels', too: what the program has used of it comes along with waits and events.
    # Where others keep the processors busy, some of it comes too late.
    "mlp_pinned_clip": {"at most": 3.5},
    "mlp_clip_item": {"at most": 4},
}


def model_of(words):
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.1)
            self.out = nn.Linear(64, 10)

        def forward(self, x):
            return self.out(self.layer(x).mean(1))

    if "mlp" in words:
        return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 10)), lambda: torch.randn(32, 64)
    if "convolution" in words:
        layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)]
        return nn.Sequential(*layers), lambda: torch.randn(8, 3, 32, 32)
    return Attention(), lambda: torch.randn(4, 16, 64)


def train(name, steps):
    import torch
    from torch import nn
    words = name.split("_")
    model, batch = model_of(words)
    model.to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), fused="fused" in words)
    for _ in range(steps):
        x = batch().pin_memory().to("cuda", non_blocking=True) if "pinned" in words else batch().to("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled="amp" in words):
            loss = nn.functional.cross_entropy(model(x), torch.zeros(x.shape[0], dtype=torch.long, device="cuda"))
        loss.backward()
        if "clip" in words:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if "item" in words:
            loss.item()
    torch.cuda.synchronize()


def waits(name, steps):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([sys.executable, __file__, name, str(steps)], env={**os.environ, "WARPLINE_STATS": file.name}, check=True)
        return collections.Counter(json.loads(file.read().splitlines()[-1])["waits"])


def check(name, expected):
    """A case of its own: the name is the model's."""
    more = waits(name, LONG)
    more.subtract(waits(name, SHORT))
    per_step = {call: count / (LONG - SHORT) for call, count in more.items() if count != 0}
    print(f"  {name}: {per_step}")
    if "at most" in expected:  # by whatever call
        assert sum(per_step.values()) <= expected["at most"], per_step
        return
    # What is asked for once may come in either run.
    assert {call: round(count) for call, count in per_step.items() if round(count) != 0} == expected, per_step


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(sys.argv[1], int(sys.argv[2]))
    else:
        for name, expected in STEPS.items():
            checked = functools.partial(check, name, expected)
            checked.__name__ = name
            case(checked)
