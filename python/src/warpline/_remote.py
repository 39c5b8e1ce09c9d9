"""Functions that run in a connected process of their own."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import spawn
from typing import Any, Generic, TypeVar, overload

from . import _files, _worker
from ._errors import RemoteError, RemoteTimeoutError
from ._settings import OptionValue, Settings, StrPath

if sys.version_info >= (3, 10):
    from typing import ParamSpec

    P = ParamSpec("P")
else:  # which has only checkers to please
    P = TypeVar("P")
R = TypeVar("R")

_log = logging.getLogger("warpline")


class _RemoteTraceback(Exception):
    """Shown as the cause of an exception that came from another process: its traceback there."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class RemoteFunction(Generic[P, R]):
    """A function that each call runs in a process of its own; made by remote(). `__wrapped__` is the function itself."""

    def __init__(self, function: Callable[P, R], settings: Settings, timeout: float | None) -> None:
        name = getattr(function, "__qualname__", "")
        if "<" in name or not name:
            raise TypeError(f"{name or function!r}: only functions that other processes can import by their name can be remote")
        functools.update_wrapper(self, function)
        self.__wrapped__ = function
        self._settings = settings
        self._timeout = timeout

    def __set_name__(self, owner: type, name: str) -> None:
        raise TypeError(f"{owner.__qualname__}.{name}: methods cannot be remote; let a function of the module call it")

    def __reduce__(self) -> str:
        return self.__wrapped__.__qualname__  # by name, as functions are

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the function with copies of these arguments, and returns a copy of its result. See remote()."""
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        function = self.__wrapped__
        preparation = spawn.get_preparation_data(function.__qualname__)
        preparation.pop("authkey", None)  # for multiprocessing's own connections, of which there is none
        job = _worker.Job(
            os.getpid(),
            preparation,
            function.__module__,
            function.__qualname__,
            pickle.dumps((args, kwargs)),
        )
        if function.__module__ == "__main__" and not preparation.keys() & {"init_main_from_name", "init_main_from_path"}:
            raise RemoteError(f"{function.__qualname__} was typed in: put it into a file, which another process can import")
        environment = {**os.environ, **self._settings.variables(os.environ)}
        answer = _run(job, environment, deadline, f"{function.__module__}.{function.__qualname__}")
        result: R = _result_of(answer)
        return result


def _result_of(answer: _worker.Answer) -> Any:
    if answer.result is not None:
        return pickle.loads(answer.result)
    if answer.exception is None:
        raise RemoteError(answer.summary) from _RemoteTraceback(answer.trace)
    raise pickle.loads(answer.exception) from _RemoteTraceback(answer.trace)


def _ending_of(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _read_answer(pipe: int, process: int | None, deadline: float | None) -> bytes | None:
    """The answer; nothing if the process has ended before it was whole; None if it is too late. Blocks until then.

    process  becomes readable when the process has ended; None: only the pipe tells
    """
    said = bytearray()
    poll = select.poll()
    for descriptor in [pipe] if process is None else [pipe, process]:
        poll.register(descriptor, select.POLLIN)
    length = _worker.LENGTH.size
    while len(said) < length:
        left = _left(deadline)
        ready = [descriptor for descriptor, _ in poll.poll(None if left is None else math.ceil(left * 1000))]
        if not ready:
            return None
        part = os.read(pipe, 1 << 20) if pipe in ready else b""  # what it said before its end comes first
        if not part:
            return b""
        said += part
        if len(said) >= _worker.LENGTH.size:
            length = _worker.LENGTH.size + _worker.LENGTH.unpack_from(said)[0]
    return bytes(said[_worker.LENGTH.size :])


def _watch_end(process: subprocess.Popen[bytes], files: contextlib.ExitStack) -> int | None:
    """A descriptor that tells the end of a process, where the system has such."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        return None
    files.callback(os.close, descriptor)
    return descriptor


def _run(job: _worker.Job, environment: dict[str, str], deadline: float | None, name: str) -> _worker.Answer:
    """Starts a process for the job, and kills it, and all that it has started, when there is no more to be had of it.

    By `warpline run`, which finds the libraries and has somebody tell the server if the process is killed."""
    with contextlib.ExitStack() as files:
        # A file, not a pipe: however long it is, nobody waits for its being read.
        given = files.enter_context(os.fdopen(os.memfd_create("warpline-job"), "wb"))
        given.write(pickle.dumps(job))
        given.seek(0)
        read_end, write_end = (files.enter_context(os.fdopen(end, mode)) for end, mode in zip(os.pipe(), ("rb", "wb")))
        process = subprocess.Popen(
            [str(_files.command()), "run", "--", *_worker.command(given.fileno(), write_end.fileno())],
            env=environment,
            stdin=subprocess.DEVNULL,
            pass_fds=[given.fileno(), write_end.fileno()],
            start_new_session=True,  # and so a group that can be killed as one
        )
        try:
            write_end.close()
            said = _read_answer(read_end.fileno(), _watch_end(process, files), deadline)
            if said is not None:
                # What it does at its end (the session's, and what the function has registered) belongs to it.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_left(deadline))
        finally:
            if process.poll() is None:
                _kill_group(process)
    if said is None:
        raise RemoteTimeoutError(f"{name}: no result in time; its process was killed")
    if not said:
        raise RemoteError(f"{name}: its process {_ending_of(process.returncode)} without a result")
    if process.returncode != 0:
        _log.warning("%s: has a result, and then its process %s", name, _ending_of(process.returncode))
    answer: _worker.Answer = pickle.loads(said)
    return answer


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@overload
def remote(function: Callable[P, R], /) -> RemoteFunction[P, R]: ...


@overload
def remote(
    *,
    servers: str | Sequence[str] | None = None,
    devices: int | str | Sequence[int | str] | None = None,
    memory: str | int | None = None,
    cert: StrPath | None = None,
    key: StrPath | None = None,
    ca: StrPath | None = None,
    config: StrPath | None = None,
    timeout: float | None = None,
    **options: OptionValue,
) -> Callable[[Callable[P, R]], RemoteFunction[P, R]]: ...


def remote(
    function: Callable[P, R] | None = None,
    /,
    *,
    servers: str | Sequence[str] | None = None,
    devices: int | str | Sequence[int | str] | None = None,
    memory: str | int | None = None,
    cert: StrPath | None = None,
    key: StrPath | None = None,
    ca: StrPath | None = None,
    config: StrPath | None = None,
    timeout: float | None = None,
    **options: OptionValue,
) -> RemoteFunction[P, R] | Callable[[Callable[P, R]], RemoteFunction[P, R]]:
    """Decorator: each call of the function runs in a new process that is connected, and ends with it, its session included.

    What CUDA is to this process does not matter: it may have none, another one, or a fork of one. The parameters are those of
    connect(), with what this process's environment says, at the time of the call, for those that are not given; and

    timeout  seconds for a call, from the start of its process to its end; None: as long as it takes

    The process imports the function's module and calls the function with pickled copies of the arguments; the result comes back
    the same way. So the function must be one that can be imported by its name (no lambda, no function within a function, none
    typed into a prompt), a script needs `if __name__ == "__main__":` around what it starts, and arrays of a device are to be
    turned into arrays of the host before they are returned. Output of the function goes where this process's goes; its standard
    input is empty.

    An exception of the function is raised here, the same one, with the traceback there as its cause; RemoteError if it cannot be
    pickled, is none that callers catch (SystemExit), or the process died; RemoteTimeoutError if it took too long; ConnectError and
    what else connect() raises if the process finds no server. An exception here while a call waits (an interrupt) kills the
    process and all that it has started; the end of the thread that waits kills the process.

    Calls block; any thread may call, and several at the same time are several processes with a session each.
    """
    settings = Settings(servers, devices, memory, cert, key, ca, config, options)
    settings.named()  # what is wrong is said now, not with the first call

    def decorate(decorated: Callable[P, R]) -> RemoteFunction[P, R]:
        return RemoteFunction(decorated, settings, timeout)

    return decorate if function is None else decorate(function)
