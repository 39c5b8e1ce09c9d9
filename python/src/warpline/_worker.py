"""The process of one call of a remote function: connects, calls, answers, ends."""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import signal
import struct
import sys
import traceback
from dataclasses import dataclass
from multiprocessing import spawn
from pathlib import Path
from typing import Any

from ._connect import connect
from ._errors import RemoteError

_PR_SET_PDEATHSIG = 1
LENGTH = struct.Struct("=Q")  # of an answer, before it


@dataclass(frozen=True)
class Job:
    """What a worker is given."""

    parent: int  #: the number of the process that waits for it
    preparation: dict[str, Any]  #: what multiprocessing tells spawned processes: sys.path, working directory, main module
    module: str
    name: str  #: of the function, qualified
    arguments: bytes  #: pickled: what they need is there only once the main module is


@dataclass(frozen=True)
class Answer:
    """What comes back of it."""

    result: bytes | None  #: pickled; None: it has raised
    exception: bytes | None = None  #: pickled; None: it cannot travel, or is none that a caller should be given
    summary: str = ""  #: the exception in one line
    trace: str = ""  #: its traceback


def end_with(parent: int) -> None:
    """This process is killed when the thread that waits for it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it had ended before
        sys.exit(1)


def find_function(module: str, name: str) -> Any:
    """The function itself, under its decorator."""
    from ._remote import RemoteFunction  # which needs this module to start workers

    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found.__wrapped__ if isinstance(found, RemoteFunction) else found


def _answer_of(error: BaseException, first_frame: Any) -> Answer:
    summary = "".join(traceback.format_exception_only(type(error), error)).strip()
    trace = "".join(traceback.format_exception(type(error), error, first_frame))
    pickled = None
    if isinstance(error, Exception):  # SystemExit and the like are meant for this process
        try:
            pickled = pickle.dumps(error)
            pickle.loads(pickled)  # many can be written and not read
        except Exception:
            pickled = None
    return Answer(None, pickled, summary, trace)


def _result_of(job: Job, result: object) -> Answer:
    try:
        return Answer(pickle.dumps(result))
    except Exception as error:
        raise RemoteError(f"{job.module}.{job.name}: its result cannot be pickled: {error}") from error


def execute(job: Job) -> Answer:
    """Does the job in this process."""
    try:
        connect()
        spawn.prepare(job.preparation)
        function = find_function(job.module, job.name)
        arguments, keywords = pickle.loads(job.arguments)
        return _result_of(job, function(*arguments, **keywords))
    except BaseException as error:
        # Without the frame of this function, which is none of the user's.
        first_frame = error.__traceback__.tb_next if error.__traceback__ is not None else None
        return _answer_of(error, first_frame)


def main(job_fd: int, answer_fd: int) -> None:
    """Reads a job, executes it, writes the answer. Neither descriptor is left to processes that the function starts."""
    for descriptor in job_fd, answer_fd:
        os.set_inheritable(descriptor, False)
    with os.fdopen(job_fd, "rb") as source:
        job: Job = pickle.load(source)
    end_with(job.parent)
    answer = execute(job)
    sys.stdout.flush()
    sys.stderr.flush()
    said = pickle.dumps(answer)
    with os.fdopen(answer_fd, "wb") as sink:
        # Its length first: processes that the function has forked may keep the pipe open.
        sink.write(LENGTH.pack(len(said)) + said)


def command(job_fd: int, answer_fd: int) -> list[str]:
    """The command line of a worker. The package is found where this process has found it, whatever lies in the folder."""
    package = str(Path(__file__).resolve().parents[1])
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from warpline._worker import main; main(int(sys.argv[2]), int(sys.argv[3]))"
    )
    return [sys.executable, "-c", code, package, str(job_fd), str(answer_fd)]
