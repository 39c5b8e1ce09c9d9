"""Connecting this process."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType

from . import _files, _process
from ._errors import ConnectError, CudaLoadedError
from ._settings import OptionValue, Settings, StrPath

_REPORT = "WARPLINE_REPORT"  # where programs tell of their sessions, so that their death is told to the server
_lock = threading.Lock()


class Connection:
    """What connect() has set up. As a context manager, leaving it is close()."""

    def __init__(self, library: Path, before: Mapping[str, str | None]) -> None:
        self._library = library
        self._before = dict(before)
        self._set = {name: os.environ[name] for name in before}

    @property
    def library(self) -> Path:
        """The driver library of this process."""
        return self._library

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that connect() has set, for this process and for programs that it starts; empty after close()."""
        return MappingProxyType(self._set if self._before else {})

    @property
    def started(self) -> bool:
        """Whether CUDA has been initialised in this process."""
        return _process.has_started(self._library)

    def close(self) -> None:
        """Gives the variables of the environment back the values that they had, for programs that are started from now on; those
        that somebody has changed since stay. Does not end CUDA in this process, nor its session on the server: CUDA has no such
        call, and libraries keep handles to it. The session ends with the process."""
        with _lock:
            for name, value in self._before.items():
                if os.environ.get(name) != self._set[name]:
                    continue
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
            self._before = {}

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<warpline.Connection {self._library}, {'started' if self.started else 'not started'}>"


def library_path(environment: Mapping[str, str]) -> str:
    """LD_LIBRARY_PATH with the folder of our libraries in front, for programs that this one starts."""
    folder = str(_files.cuda_library().parent)
    rest = [entry for entry in environment.get("LD_LIBRARY_PATH", "").split(":") if entry and entry != folder]
    return ":".join([folder, *rest])


def check_servers(environment: Mapping[str, str]) -> None:
    """Asks the servers that this environment names, in another process: this one can fail only once.

    @raises  ConnectError if none answers, with the reason of each
    @blocks  until one answers, at most `connect_timeout`
    """
    done = _files.run_command(["servers", "--any", "--json"], environment)
    if done.returncode == 0:
        return
    if not done.stdout:  # there is none to ask, or nobody to ask as
        raise ConnectError(done.stderr.strip().removeprefix("warpline: ") or f"`warpline servers` ended with {done.returncode}")
    raise ConnectError("; ".join(f"{server['server']}: {server['problem']}" for server in json.loads(done.stdout)))


def _watcher(environment: Mapping[str, str]) -> dict[str, str]:
    """Starts who tells the server when this process is killed, if nobody does so yet. Where there can be none, the server finds
    out by itself, after `grace_seconds`."""
    if _REPORT in environment:
        return {}
    done = _files.run_command(["watch", "--for", str(os.getpid())], environment)
    return {_REPORT: done.stdout.strip()} if done.returncode == 0 else {}


def connect(
    servers: str | Sequence[str] | None = None,
    *,
    devices: int | str | Sequence[int | str] | None = None,
    memory: str | int | None = None,
    cert: StrPath | None = None,
    key: StrPath | None = None,
    ca: StrPath | None = None,
    config: StrPath | None = None,
    start: bool = True,
    **options: OptionValue,
) -> Connection:
    """Makes a remote GPU the one of this process, before CUDA starts in it.

    Sets what the client library reads in the environment, and loads the library, so that Numba, CuPy, PyTorch and whatever else
    asks for `libcuda.so.1` (or `libnvidia-ml.so.1`) from now on is given Warpline's. What is not given is as the environment and
    the configuration file say.

    servers  `"host:port"`, or several: text with commas, or a list (`WARPLINE_SERVERS`)
    devices  which of the server's devices CUDA shows: numbers or UUIDs (`CUDA_VISIBLE_DEVICES`)
    memory   the most of each device's memory that this process may have: bytes, or text such as `"8GiB"` (`WARPLINE_MEMORY`)
    cert, key, ca  files (PEM): the tenant's certificate and its key, and the authority that signed the server's
    config   another configuration file than `~/.config/warpline/client.toml`
    start    connect now. False: when CUDA is used first, so that this process may still fork children that use CUDA
    options  all others of the client, by their names in docs/configuration.md: `wait_seconds=60`, `trace="trace.json"`

    Returns a Connection, which is also a context manager; read its close() for what leaving it does.

    Raises CudaLoadedError if another CUDA driver is loaded in this process, or CUDA has started with other settings;
    ConnectError if no server answers (nothing has changed then, and another try is possible) or none takes this program (then
    not: CUDA starts once in a process); ValueError, TypeError and FileNotFoundError for what is asked for.

    Blocks until a server has answered, at most the option `connect_timeout` for each of asking and connecting. Any thread may
    call it; threads that start programs meanwhile may give them half of the variables.
    """
    settings = Settings(servers, devices, memory, cert, key, ca, config, options)
    with _lock:
        library = _process.loaded()
        wanted = settings.variables(os.environ)
        if library is not None and _process.has_started(library):
            other = sorted(name for name, value in wanted.items() if os.environ.get(name) != value)
            if other:
                raise CudaLoadedError(f"CUDA has started in this process already, with another {', '.join(other)}")
            return Connection(library, {})
        wanted["LD_LIBRARY_PATH"] = library_path(os.environ)
        environment = {**os.environ, **wanted}
        if start:
            check_servers(environment)
        wanted.update(_watcher(environment))
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        connection = Connection(_process.load(), before)
    if start and (code := _process.start(connection.library)) != 0:
        connection.close()
        name = _process.error_name(connection.library, code)
        raise ConnectError(
            f"no server takes this program (CUDA error {code}, {name}); the line on stderr says why. CUDA starts once in a "
            "process: begin another one for the next try"
        )
    return connection
