"""One run of a program through a proxy, with a plan of faults."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field

import harness

from . import expectation
from .proxy import Proxy


@dataclass
class Run:
    """How a program's run went; `code` is None if it hung and was killed."""
    code: int | None
    stdout: str
    stderr: str
    events: list
    totals: list     # of each connection: bytes by direction
    stats: list = field(default_factory=list)  # what each of its processes has written at its end


def finish(process, seconds):
    """Waits for a program to end by itself and returns (exit code or None, stdout, stderr). One that does not is killed, with what it
    has started; it must have a session of its own."""
    try:
        out, err = process.communicate(timeout=seconds)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return None, out, err


def through_proxy(server, program, arguments, plan=(), seed=None, extra=None, seconds=60, log=None):
    """Runs a program of programs.toml to its end."""
    with tempfile.TemporaryDirectory(prefix="warpline-chaos-") as folder, Proxy(server, plan, seed, log) as proxy:
        stats = pathlib.Path(folder) / "stats.json"
        process = harness.popen([program.binary, *arguments], "remote", proxy,
                                {"WARPLINE_LOG": expectation.LOG, "WARPLINE_STATS": str(stats),
                                 "WARPLINE_BULK_LANES_AFTER": "0", **(extra or {})},  # so that lanes are cut, too
                                errors="replace", cwd=folder, start_new_session=True)
        code, out, err = finish(process, seconds * (5 if harness.sanitizer_runtime() else 1))
        written = [json.loads(line) for line in stats.read_text().splitlines()] if stats.exists() else []
        return Run(code, out, err, proxy.events, proxy.totals, written)
