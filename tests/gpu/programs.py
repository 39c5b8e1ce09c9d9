"""Programs natively on a driver and through a gpu-server on the same driver: what they print must be the same (A1, A6, A8, C3). The
tests' own programs, programs built with other CUDA versions, samples, and a smoke run of each framework that is installed."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import time

import harness

TORCH = """
import torch
torch.manual_seed(1)
a = torch.randn(256, 256, device="cuda"); b = torch.randn(256, 256, device="cuda")
layer = torch.nn.Linear(256, 256).cuda()
loss = (layer(a @ b) ** 2).mean(); loss.backward()
print("gradient is finite:", bool(torch.isfinite(layer.weight.grad).all()))
print("sum is right:", abs(float((a + b).sum()) - float((a.cpu() + b.cpu()).sum())) < 0.5)
"""
CUPY = "import cupy\na = cupy.arange(1 << 20, dtype=cupy.float64)\nprint(float((a * 2).sum()))\n"
NUMBA = """
import numpy, numba.cuda
@numba.cuda.jit
def add_one(a):
    i = numba.cuda.grid(1)
    if i < a.size: a[i] += 1
a = numpy.zeros(1000); add_one[8, 128](a); print(a.sum())
"""
JAX = "import jax, jax.numpy as jnp\nassert jax.default_backend() == 'gpu'\nprint(float(jnp.arange(1000.0).sum()))\n"
CARRIED_RUNTIMES = harness.ROOT / "build" / "runtimes"
FRAMEWORKS = {"torch": TORCH, "cupy": CUPY, "numba": NUMBA, "jax": JAX}


def comparable(text):
    """What must be equal: everything but times, and how often a program asked until something was done."""
    return re.sub(r"\d+ questions", "_ questions", re.sub(r"\d+\.\d+ s", "_ s", text))


class Pair:
    """Runs a command at both places and reports the comparison."""

    def __init__(self, report, place, remote):
        self.report, self.place, self.remote = report, place, remote

    def _run(self, command, environment, seconds):
        began = time.monotonic()
        try:
            done = subprocess.run([str(c) for c in command], env=environment, capture_output=True, text=True, errors="replace",
                                  timeout=seconds)
        except subprocess.TimeoutExpired:
            return None, f"no end within {seconds} s", seconds
        words = "" if done.returncode == 0 else f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}"
        return done.stdout, words, time.monotonic() - began

    def compare(self, id, command, seconds=60, libraries=None, remote=True):
        def with_libraries(environment):
            paths = os.pathsep.join(filter(None, [environment["LD_LIBRARY_PATH"], str(libraries or "")]))
            return {**environment, "LD_LIBRARY_PATH": paths}

        here, problem, here_s = self._run(command, with_libraries(self.place.environment()), seconds)
        if problem:
            self.report.add(id, "failed", f"natively: {problem}")
            return
        if not remote:
            self.report.add(id, "seen", f"{here_s:.2f} s natively; not offered through a server", native_s=round(here_s, 3))
            return
        there, problem, there_s = self._run(command, with_libraries(self.remote.environment()), 3 * seconds)
        times = {"native_s": round(here_s, 3), "remote_s": round(there_s, 3)}
        if problem:
            self.report.add(id, "failed", f"through a server: {problem}", **times)
        elif comparable(here) != comparable(there):
            self.report.add(id, "differs", **times, differences=[("output through a server", there[-300:], here[-300:])])
        else:
            self.report.add(id, "same", f"{here_s:.2f} s natively, {there_s:.2f} s through a server", **times)


def own(report, pair, names, short):
    """The programs of programs.toml that have been built and need no test around them."""
    for program in harness.programs().values():
        if not program.alone and "direct" not in program.modes:
            continue
        if (names and program.name not in names) or (short and not names and program.name not in ("vector_add", "copies")):
            continue
        if not program.binary.exists():
            report.add(program.name, "skipped", "not built (build/programs)")
            continue
        for arguments in program.args:
            pair.compare(" ".join([program.name, *arguments]), [program.binary, *arguments], program.seconds,
                         remote=program.alone or "remote" in program.modes)


def runtimes(report, pair, short):
    """The tour of the runtime, built with as many CUDA versions as were brought along."""
    tours = sorted((harness.BINARIES / "versions").glob("tour-*"))
    tours = [tour for tour in tours if os.access(tour, os.X_OK) and tour.suffix != ".o"]
    if not tours:
        report.add("runtimes 11.8 to 13.x", "skipped", "no build/programs/versions was brought along (tests/e2e/versions.py builds it)")
    for tour in tours[:1] if short else tours:
        kind, version = tour.name.split("-")[1:3]
        libraries = CARRIED_RUNTIMES / version
        if kind == "shared" and not libraries.exists():
            report.add(tour.name, "skipped", f"libcudart of {version} was not brought along")
        else:
            pair.compare(tour.name, [tour], 30, libraries if kind == "shared" else None)


def samples(report, pair):
    """Built programs of somebody else's."""
    folder = os.environ.get("WARPLINE_SAMPLES")
    if not folder:
        report.add("samples", "skipped", "none at hand; WARPLINE_SAMPLES names a folder of built programs")
        return
    for sample in sorted(pathlib.Path(folder).iterdir()):
        if sample.is_file() and os.access(sample, os.X_OK):
            pair.compare(f"sample {sample.name}", [sample], 120)


def frameworks(report, pair):
    for name, text in FRAMEWORKS.items():
        if importlib.util.find_spec(name) is None:
            report.add(name, "skipped", f"not installed for {sys.executable}")
        else:
            pair.compare(name, [sys.executable, "-c", text], 180)
