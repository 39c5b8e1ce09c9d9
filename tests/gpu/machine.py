"""The machine and the build that scripts/test-gpu works with: the driver, its place for programs, certificates, runs of questions."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import harness  # noqa: E402

SECONDS = 10  # that one question may take
CARRIED_CERTIFICATES = harness.ROOT / "build" / "certificates"

FIND = """
import ctypes, os, sys
driver = ctypes.CDLL(sys.argv[1])
result = driver.cuInit(0)
name = os.path.basename(sys.argv[1]).split(".so")[0]
paths = {line.split()[-1] for line in open("/proc/self/maps") if name in os.path.basename(line.split()[-1])}
print(result, *paths)
"""


class NoDriver(Exception):
    """There is no driver here that works; the words say why."""


def find_driver():
    """The path of the driver: the one that WARPLINE_DRIVER names, or the system's libcuda.so.1."""
    name = os.environ.get("WARPLINE_DRIVER", "libcuda.so.1")
    done = subprocess.run([sys.executable, "-c", FIND, name], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise NoDriver(f"{name} does not load: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    result, *paths = done.stdout.splitlines()[-1].split()
    if result != "0":
        raise NoDriver(f"cuInit of {name} gave {result}")
    if not paths:
        raise NoDriver(f"{name} loads, but its file cannot be found")
    return pathlib.Path(paths[0])


def certificates(folder):
    """Certificates for a server here: made on the spot where openssl is, else those that were brought along."""
    if shutil.which("openssl"):
        return harness.development_certificates(pathlib.Path(folder) / "certificates")
    if (CARRIED_CERTIFICATES / "tenant.key").exists():
        return CARRIED_CERTIFICATES
    raise NoDriver("no openssl here, and no build/certificates was brought along (scripts/test-gpu --pack brings them)")


class Place:
    """A driver as programs find it: under the name libcuda.so.1 in a folder of its own."""

    def __init__(self, driver, extra=None):
        self.driver = driver
        self.folder = tempfile.TemporaryDirectory(prefix="warpline-gpu-")
        os.symlink(driver, pathlib.Path(self.folder.name) / "libcuda.so.1")
        self.extra = extra or {}

    def environment(self):
        libraries = os.pathsep.join(filter(None, [self.folder.name, os.environ.get("LD_LIBRARY_PATH")]))
        return {**os.environ, "LD_LIBRARY_PATH": libraries, "WARPLINE_PROBE_DRIVER": str(self.driver), **self.extra}


class Remote:
    """The same driver behind a gpu-server."""

    def __init__(self, server):
        self.server = server
        self.driver = harness.CLIENT_LIB / "libcuda.so.1"

    def environment(self):
        return harness.environment_for("remote", self.server, {"WARPLINE_PROBE_DRIVER": str(self.driver)})


def ask(question, place):
    """The answer to a question, asked in a child: {"values": …}, {"skipped": why}, or {"failed": how}."""
    command = [sys.executable, str(HERE / "ask.py"), question.module, question.function, *question.arguments]
    try:
        done = subprocess.run(command, env=place.environment(), capture_output=True, text=True, errors="replace", timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer within {SECONDS} s"}
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or [""])[-1]
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        return {"failed": f"{how} {last}".strip()}


def comparable(answer):
    """Of an answer what must be equal elsewhere: no times and no sizes."""
    if "values" not in answer:
        return {"skipped" if "skipped" in answer else "failed": answer.get("skipped") or answer["failed"]}
    return {name: value for name, value in answer["values"].items() if not name.endswith(("_ms", "_us", "_bytes", "_queued"))}


def differences(one, other):
    """[(name, value of one, value of the other)] of what is comparable and differs."""
    one, other = comparable(one), comparable(other)
    return [(name, one.get(name), other.get(name)) for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
