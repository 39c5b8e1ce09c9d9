"""What the end-to-end tests stand on: the build, the programs, a gpu-server of their own, and runs of programs against it.

Modules of tests run in processes of their own, several at a time (run.py): what they share are files, and is written for that."""

from __future__ import annotations  # Python 3.9 runs this on machines with a GPU

import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

import stuck

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WARPLINE_BUILD", ROOT / "build" / "release")).resolve()  # programs run in other folders
PROGRAMS = ROOT / "tests" / "programs"
BINARIES = pathlib.Path(os.environ.get("WARPLINE_PROGRAMS", ROOT / "build" / "programs")).resolve()

GPU_SERVER = BUILD / "bin" / "gpu-server"
WARPLINE = BUILD / "bin" / "warpline"
CLIENT_LIB = BUILD / "lib" / "warpline"
DIRECT_LIB = CLIENT_LIB / "direct"
SOFTGPU = BUILD / "lib" / "libsoftgpu.so"
FAKE_NVML = BUILD / "tests" / "libwarpline_fake_nvml.so"


def until(reached, seconds=60):
    """Looks again and again, with a deadline, at what nobody tells us about: a log file, the end of a stranger's process. The last
    answer of `reached`."""
    deadline = time.monotonic() + seconds
    while not (answer := reached()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer


def read_until(stream, pattern):
    """The lines of a program's output up to one that the pattern is found in."""
    lines = ""
    for line in stream:
        lines += line
        if re.search(pattern, line):
            return lines
    raise AssertionError(f"no {pattern!r} in {lines}")


def sanitizer_runtime():
    """The sanitizer's run time of a sanitized build, to be loaded before everything else into programs that are not; else None."""
    shared = subprocess.run(["ldd", str(SOFTGPU)], capture_output=True, text=True, check=True).stdout
    for line in shared.splitlines():
        for name in ("libasan.so", "libtsan.so", "libclang_rt."):
            if name in line:
                return line.split("=>")[1].split()[0]
    return None


def cuda_root():
    """Where nvcc is: .cuda/ of scripts/setup, or the toolkit on PATH."""
    local = ROOT / ".cuda"
    if (local / "bin" / "nvcc").exists():
        return local
    nvcc = shutil.which("nvcc")
    return pathlib.Path(nvcc).resolve().parents[1] if nvcc else None


@dataclass
class Program:
    name: str
    source: pathlib.Path
    flags: list = field(default_factory=list)
    args: list = field(default_factory=lambda: [[]])
    modes: list = field(default_factory=lambda: ["direct", "remote"])
    round_trips: int | None = None
    stdout: str | None = None
    seconds: int = 60
    sanitized: bool = True
    alone: bool = False

    @property
    def binary(self):
        return BINARIES / self.name

    @property
    def object(self):
        return BINARIES / "objects" / f"{self.name}.o"

    @property
    def needs_toolkit(self):
        """Libraries of CUDA's when it runs."""
        return any(flag in ("-lnvrtc", "shared") for flag in self.flags)


def waits(program):
    """Which calls of the program wait for the server, and how often at most ("any": as often as they like)."""
    import tomllib
    return tomllib.loads((PROGRAMS / "waits.toml").read_text()).get(program.name, {})


def description():
    """What programs.toml says; on a Python that cannot read it, what write_description() has made of it."""
    try:
        import tomllib
    except ModuleNotFoundError:
        return json.loads((BINARIES / "programs.json").read_text())
    return tomllib.loads((PROGRAMS / "programs.toml").read_text())


def write_description():
    (BINARIES / "programs.json").write_text(json.dumps(description()))


def programs():
    """The programs of programs.toml, by name."""
    described = description()
    result = {}
    for name, entry in described.items():
        source = PROGRAMS / entry.pop("source", name + ".cu")
        if "stdout" in entry:
            entry["stdout"] = entry["stdout"].removeprefix("\n")
        result[name] = Program(name, source, **entry)
    return result


def wrong_output(program, stdout):
    """What is wrong with the standard output of a program that ended with exit code 0, in words; None if nothing is."""
    if program.stdout is not None:
        return None if stdout == program.stdout else f"standard output is not what {program.name} prints: {stdout!r}"
    return None if "verified" in stdout else f"no 'verified' in {stdout!r}"


@contextlib.contextmanager
def locked(path):
    """Holds a file's lock, against other processes as well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build_program(program):
    """Builds one program if its binary is older than what it is made of. Raises with nvcc's words if that fails."""
    inputs = [program.source, *PROGRAMS.glob("*.h"), PROGRAMS / "programs.toml"]
    newest = max(i.stat().st_mtime for i in inputs)
    with locked(BINARIES / "locks" / program.name):
        if program.binary.exists() and program.binary.stat().st_mtime > newest:
            return
        unfinished = program.binary.with_name(f"{program.name}.unfinished")  # others may be running what is there
        program.object.parent.mkdir(parents=True, exist_ok=True)
        _nvcc("-c", "-o", program.object, program.source, *program.flags)
        link_program(program, unfinished)
        unfinished.rename(program.binary)


def link_program(program, binary, flags=()):
    """Makes a binary of a program that has been built, perhaps for other systems. Raises with nvcc's words if that fails."""
    library = cuda_root() / "lib"
    shared = ["-L", library, "-Xlinker", f"-rpath={library}"] if program.needs_toolkit else []
    _nvcc("-o", binary, program.object, *program.flags, "-ldl", *shared, *flags)


def _nvcc(*arguments):
    command = [str(c) for c in (cuda_root() / "bin" / "nvcc", "-O2", *arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def development_certificates(folder):
    """A certificate authority, a server's and a tenant's certificate, made by the command that users have."""
    subprocess.run([ROOT / "certs" / "dev", folder], check=True, capture_output=True, text=True)
    return pathlib.Path(folder)


# Where runs of programs through a server leave which functions they have called: a file for each process of tests.
CALLED = os.environ.get("WARPLINE_CALLED")


def remember_calls(program, processes):
    """Keeps for called() what the statistics of a program's processes say."""
    if CALLED and processes:
        functions = sorted({function for process in processes for function in process["functions"]})
        with open(pathlib.Path(CALLED) / str(os.getpid()), "a") as file:
            file.write(json.dumps([program, functions]) + "\n")


def called():
    """Which programs have called which functions of the driver through a server, in this run of the tests."""
    result = {}
    for file in sorted(pathlib.Path(CALLED).iterdir()) if CALLED else []:
        for program, functions in map(json.loads, file.read_text().splitlines()):
            for function in functions:
                result.setdefault(function, set()).add(program)
    return result


@dataclass
class Run:
    code: int
    stdout: str
    stderr: str
    stats: dict


class Server:
    """A gpu-server on a free loopback port, ready when the constructor returns. Used as a context manager."""

    def __init__(self, driver=SOFTGPU, certificates=None, flags=(), environment=None, listen="127.0.0.1:0"):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-test-"))
        self.certificates = certificates or development_certificates(self.folder / "certs")
        ready_read, ready_write = os.pipe()
        self.log_path = self.folder / "server.log"
        self.log = open(self.log_path, "wb")
        self.process = subprocess.Popen(
            [GPU_SERVER, "--listen", listen, "--driver", driver, "--cert", self.certificates / "server.crt",
             "--key", self.certificates / "server.key", "--ca", self.certificates / "ca.crt", "--ready-fd", str(ready_write), *flags],
            pass_fds=[ready_write], stdout=self.log, stderr=self.log, start_new_session=True,
            # Tests count bytes and cut connections at them: what a program sends must not depend on what others have sent before.
            env={**os.environ, "WARPLINE_UPLOAD_CACHE": "0", **(environment or {})})
        os.close(ready_write)
        with os.fdopen(ready_read) as ready:
            line = ready.readline().split()
        if len(line) != 2 or line[0] != "ready":
            self.process.wait()
            raise RuntimeError(f"gpu-server did not become ready:\n{self.log_path.read_text()}")
        self.address = line[1]

    def environment(self):
        """What a program needs to use this server."""
        return {"WARPLINE_SERVERS": self.address, "WARPLINE_CERT": str(self.certificates / "tenant.crt"),
                "WARPLINE_KEY": str(self.certificates / "tenant.key"), "WARPLINE_CA": str(self.certificates / "ca.crt")}

    def log_text(self):
        return self.log_path.read_text(errors="replace")

    def stop(self):
        """SIGTERM and wait; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.log.close()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def environment_for(mode, server=None, extra=None):
    """The environment of a program that runs natively, directly on the software GPU, or remotely."""
    environment = {**os.environ, **(extra or {})}
    if mode == "direct":
        environment["LD_LIBRARY_PATH"] = str(DIRECT_LIB)
    elif mode == "remote":
        environment["LD_LIBRARY_PATH"] = str(CLIENT_LIB)
        environment.update(server.environment() if server else {})
    runtime = sanitizer_runtime() if mode != "native" else None
    if runtime:
        environment["LD_PRELOAD"] = runtime
        # The programs themselves are not instrumented; what cudart never frees is not ours to report.
        environment["ASAN_OPTIONS"] = "detect_leaks=0:verify_asan_link_order=0:" + environment.get("ASAN_OPTIONS", "")
    return environment


def warpline(*arguments, environment=None, timeout=120, **kwargs):
    """Runs the warpline command, with the sanitizer's run time before the program that it runs, if there is one."""
    env = {**os.environ, **(environment or {})}
    words = [str(a) for a in arguments]
    runtime = sanitizer_runtime()
    if runtime:  # programs are not instrumented: the run time has to come before them
        env["ASAN_OPTIONS"] = "detect_leaks=0:verify_asan_link_order=0"
        if "--" in words:
            at = words.index("--") + 1
            words[at:at] = ["sh", "-c", f'LD_PRELOAD="{runtime}:$LD_PRELOAD" exec "$@"', "sh"]
    return subprocess.run([WARPLINE, *words], capture_output=True, text=True, env=env, timeout=timeout, **kwargs)


def popen(command, mode, server=None, extra=None, **kwargs):
    return subprocess.Popen([str(c) for c in command], env=environment_for(mode, server, extra), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **kwargs)


def patience(seconds):
    """How long something may take that takes so long in a build without a sanitizer."""
    return seconds * (5 if sanitizer_runtime() else 1)


def finish(process, seconds, server=None):
    """Waits for a program's end. What it has written; raises with what it and its server are doing where that takes too long."""
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as timeout:
        try:
            doing = stuck.report([process.pid, *([server.process.pid] if server else [])])
        finally:
            process.kill()
        said = "".join(process.communicate())
        log = server.log_text() if server else ""
        raise TimeoutError(f"{timeout}\nIt has written:\n{said}\nThe server's log:\n{log}\nWhat they are doing:\n{doing}") from None


def run(command, mode, server=None, extra=None, seconds=60, stats=True):
    """Runs a program to its end and reads its statistics, unless it is to write none."""
    with tempfile.TemporaryDirectory(prefix="warpline-run-") as folder:
        stats_path = pathlib.Path(folder) / "stats.json"
        environment = environment_for(mode, server, {**(extra or {}), **({"WARPLINE_STATS": str(stats_path)} if stats else {})})
        process = subprocess.Popen([str(c) for c in command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   errors="replace", cwd=folder)
        stdout, stderr = finish(process, patience(seconds), server)
        # A line for each process of the program that had a session; the first one is what tests look at.
        lines = [json.loads(line) for line in stats_path.read_text().splitlines()] if stats_path.exists() else []
    remember_calls(pathlib.Path(command[0]).name, lines)
    return Run(process.returncode, stdout, stderr, lines[0] if lines else {})
