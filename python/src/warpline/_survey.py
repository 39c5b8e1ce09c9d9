"""What servers tell of themselves and of their devices."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import _files
from ._errors import ConnectError
from ._settings import Settings

_log = logging.getLogger("warpline")


@dataclass(frozen=True)
class Device:
    """A device, as a program on this machine would see it."""

    server: str  #: its server's address
    index: int  #: CUDA's number of it there, as in `devices=`
    name: str
    uuid: str  #: `GPU-…`, or `MIG-…` of a part of one; also for `devices=`
    total_bytes: int  #: of its memory
    free_bytes: int  #: whoever uses the rest
    compute_capability: tuple[int, int]
    multiprocessors: int
    round_trip_us: float | None  #: the fastest of ten synchronisations with the server; None if none came back


@dataclass(frozen=True)
class DeviceLoad:
    """How busy a device of a server is. None: the server does not know."""

    utilisation_percent: int | None
    total_bytes: int | None
    free_bytes: int | None


@dataclass(frozen=True)
class Server:
    """A server, as it answers a client that asks for no session."""

    address: str
    problem: str | None  #: why it has not answered; then nothing below is known
    name: str = ""
    version: str = ""  #: Warpline's
    sessions: int = 0  #: running, or with a place that is kept
    max_sessions: int = 0
    workers_ready: int = 0  #: sessions that can begin without waiting for a driver
    draining: bool = False  #: it takes no more sessions
    driver: str = ""  #: "nvidia" or "software"
    driver_version: tuple[int, int] = (0, 0)  #: CUDA's
    device_count: int = 0
    devices: tuple[DeviceLoad, ...] = ()
    round_trip_ms: float = 0.0  #: of the question

    @property
    def answered(self) -> bool:
        """Whether it has answered."""
        return self.problem is None


def devices_of(said: list[dict[str, Any]]) -> list[Device]:
    """The devices in what `warpline devices --json` says."""
    return [
        Device(
            server=server["server"],
            index=index,
            name=device["name"],
            uuid=device["uuid"],
            total_bytes=device["total_bytes"],
            free_bytes=device["free_bytes"],
            compute_capability=(device["compute_capability"][0], device["compute_capability"][1]),
            multiprocessors=device["multiprocessors"],
            round_trip_us=server["round_trip_us"],
        )
        for server in said
        if server["reached"]
        for index, device in enumerate(server["devices"])
    ]


def server_of(said: dict[str, Any]) -> Server:
    """A server in what `warpline servers --json` says."""
    if not said["answered"]:
        return Server(address=said["server"], problem=said["problem"])
    return Server(
        address=said["server"],
        problem=None,
        name=said["name"],
        version=said["version"],
        sessions=said["sessions"],
        max_sessions=said["max_sessions"],
        workers_ready=said["workers_ready"],
        draining=said["draining"],
        driver=said["driver"],
        driver_version=(said["driver_version"] // 1000, said["driver_version"] % 1000 // 10),
        device_count=said["device_count"],
        devices=tuple(DeviceLoad(**load) for load in said["devices"]),
        round_trip_ms=said["round_trip_ms"],
    )


def _ask(words: list[str], servers: str | Sequence[str] | None) -> tuple[list[dict[str, Any]], str]:
    """What a subcommand says of the servers, and what it complains of. @raises ConnectError if it asked nobody"""
    done = _files.run_command([*words, "--json"], {**os.environ, **Settings(servers=servers).named()})
    complaints = done.stderr.strip().removeprefix("warpline: ")
    said: list[dict[str, Any]] = json.loads(done.stdout) if done.stdout else []
    if not said:
        raise ConnectError(complaints or f"`warpline {' '.join(words)}` ended with exit code {done.returncode}")
    return said, complaints


def devices(servers: str | Sequence[str] | None = None) -> list[Device]:
    """The devices of the servers, as programs that are started now would see them: `CUDA_VISIBLE_DEVICES` applies.

    Opens a session on each server for a moment, in another process: this one's CUDA has no part in it. A server that cannot be
    reached is left out, with a warning of the logger `warpline`.

    servers  others than those of the environment or the configuration file

    Raises ConnectError if none can be reached, or none is named. Blocks for at most the option `connect_timeout` for each server.
    """
    said, complaints = _ask(["devices"], servers)
    if not any(server["reached"] for server in said):
        raise ConnectError(complaints or "; ".join(f"{server['server']}: {server['problem']}" for server in said))
    for server in said:
        if not server["reached"]:
            _log.warning("%s: %s", server["server"], server["problem"])
    return devices_of(said)


def servers(servers: str | Sequence[str] | None = None) -> list[Server]:
    """The servers, asked for their status at the same time. One that has not answered is in the list, with its `problem`.

    servers  others than those of the environment or the configuration file

    Raises ConnectError if none is named, or there is no certificate to ask with. Blocks for at most the option `connect_timeout`.
    """
    return [server_of(server) for server in _ask(["servers"], servers)[0]]
