"""Programs natively on a driver and through a gpu-server on the same driver: what they print must be the same (A1, A6, A8, C3). The
tests' own programs, programs built with other CUDA versions, samples, and programs of each framework that is installed."""

import concurrent.futures
import importlib.util
import itertools
import os
import pathlib
import re
import subprocess
import sys
import time

import harness

CARRIED_RUNTIMES = harness.ROOT / "build" / "runtimes"
HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE.parent / "frameworks"
# Scripts, and the frameworks that each needs.
FRAMEWORKS = {HERE / "torch_models.py": ["torch"], CASES / "torch_calls.py": ["torch", "transformers"],
              CASES / "triton_kernels.py": ["torch", "triton"], CASES / "cupy_arrays.py": ["cupy"],
              CASES / "numba_kernels.py": ["numba"], CASES / "jax_arrays.py": ["jax"]}


def comparable(text):
    """What must be equal: everything but times, how often a program asked until something was done, and how much memory was free
    for it (which depends on who else is there)."""
    for what, instead in ((r"\d+\.\d+ s", "_ s"), (r"\d+ questions", "_ questions"), (r"(?m)\d+ of (\d{9,})$", r"_ of \1")):
        text = re.sub(what, instead, text)
    return text


def different_lines(there, here):
    """The first few lines that differ, as a report has them."""
    pairs = itertools.zip_longest(there.splitlines(), here.splitlines(), fillvalue="")
    return [("output through a server", t, h) for t, h in pairs if comparable(t) != comparable(h)][:4]


class Pair:
    """Runs a command at both places and reports the comparison."""

    def __init__(self, report, place, remote, jobs=1):
        self.report, self.place, self.remote, self.jobs = report, place, remote, jobs
        self.running = set()

    def together(self, comparisons):
        """Runs calls of compare, (arguments, more by name), some at a time. What is not the same then is asked again by itself: programs
        beside one another share a device's memory and time."""
        if self.jobs == 1:
            for arguments, more in comparisons:
                self.compare(*arguments, **more)
            return
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            try:
                good = list(pool.map(lambda c: self.compare(*c[0], **c[1], only_good=True), comparisons))
            except BaseException:  # the report is to be written now
                pool.shutdown(wait=False, cancel_futures=True)
                for process in list(self.running):
                    process.kill()
                raise
        for (arguments, more), is_good in zip(comparisons, good):
            if not is_good:
                self.compare(*arguments, **more)

    def _run(self, command, environment, seconds):
        began = time.monotonic()
        with subprocess.Popen([str(c) for c in command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace") as process:
            self.running.add(process)
            try:
                out, err = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                return process.communicate()[0], f"no end within {seconds} s", seconds
            finally:
                self.running.remove(process)
        words = "" if process.returncode == 0 else f"exit code {process.returncode}: {(err or out).strip()[-1000:]}"
        return out, words, time.monotonic() - began

    def compare(self, id, command, seconds=60, libraries=None, remote=True, only_good=False):
        """Reports whether a command does the same at both places (with only_good: unless it does not), and returns that."""
        def with_libraries(environment):
            paths = os.pathsep.join(filter(None, [environment["LD_LIBRARY_PATH"], str(libraries or "")]))
            return {**environment, "LD_LIBRARY_PATH": paths}

        def told(status, words="", **data):
            good = status in ("same", "seen")
            if good or not only_good:
                self.report.add(id, status, words, **data)
            return good

        here, problem, here_s = self._run(command, with_libraries(self.place.environment()), seconds)
        if problem:
            return told("failed", f"natively: {problem}", output=here[-2000:])
        if not remote:
            return told("seen", f"{here_s:.2f} s natively; not offered through a server", native_s=round(here_s, 3))
        there, problem, there_s = self._run(command, with_libraries(self.remote.environment()), 3 * seconds)
        times = {"native_s": round(here_s, 3), "remote_s": round(there_s, 3)}
        if problem:
            return told("failed", f"through a server: {problem}", output=there[-2000:], **times)
        if comparable(here) != comparable(there):
            return told("differs", **times, differences=different_lines(there, here), outputs=[there[-4000:], here[-4000:]])
        return told("same", f"{here_s:.2f} s natively, {there_s:.2f} s through a server", output=there[-2000:], **times)


def own(report, pair, names, short):
    """The programs of programs.toml that have been built and need no test around them."""
    comparisons = []
    for program in harness.programs().values():
        if not program.alone and "direct" not in program.modes:
            continue
        if (names and program.name not in names) or (short and not names and program.name not in ("vector_add", "copies")):
            continue
        if not program.binary.exists():
            report.add(program.name, "skipped", "not built (build/programs)")
            continue
        for arguments in program.args:
            comparisons.append(((" ".join([program.name, *arguments]), [program.binary, *arguments], program.seconds),
                                {"remote": program.alone or "remote" in program.modes}))
    pair.together(comparisons)


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


def frameworks(report, pair, names):
    comparisons = []
    for script, needed in FRAMEWORKS.items():
        if names and script.stem not in names:
            continue
        missing = [name for name in needed if importlib.util.find_spec(name) is None]
        if missing:
            report.add(script.stem, "skipped", f"{', '.join(missing)} not installed for {sys.executable}")
        else:
            comparisons.append(((script.stem, [sys.executable, script], 180), {}))
    pair.together(comparisons)
