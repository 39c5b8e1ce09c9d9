"""Processes of a server and what can happen to them: found, stopped, continued, killed."""

import contextlib
import os
import pathlib
import re
import signal

from harness import until


def children(pid):
    try:
        return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def workers(supervisor):
    """The workers below a supervisor: without the door, which is always there."""
    found = []
    for pid in children(supervisor):
        try:
            if b"--worker-of=" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def state(pid):
    """The letter of /proc/PID/stat (R, S, T, Z …); None if there is no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def worker_of(server, client_pid, seconds=10):
    """The worker that serves a client, as the server's audit line says; LookupError if it has said nothing."""
    pattern = re.compile(rf"session start .* client_pid={client_pid} worker=(\d+)")
    found = until(lambda: pattern.search(server.log_text()), seconds)
    if not found:
        raise LookupError(f"no session of {client_pid}:\n{server.log_text()}")
    return int(found.group(1))


@contextlib.contextmanager
def stopped(pid):
    """The process is stopped (SIGSTOP), certainly, for the time of the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        if not until(lambda: state(pid) == "T", 10):
            raise RuntimeError(f"{pid} does not stop: {state(pid)}")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def gone(pids, seconds):
    """True if none of the processes is there any more, at the latest after `seconds`."""
    return until(lambda: all(state(p) in (None, "Z") for p in pids), seconds)
