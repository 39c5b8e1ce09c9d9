"""CUDA programs of this machine on GPUs of others.

    import warpline

    with warpline.connect("gpu-node:14833", cert="tenant.crt", key="tenant.key", ca="ca.crt"):
        import cupy  # and everything else that uses CUDA, unchanged

docs/python.md leads from nothing to a verified program.
"""

from ._connect import Connection, connect
from ._errors import (
    ConnectError,
    CudaLoadedError,
    RemoteError,
    RemoteTimeoutError,
    WarplineError,
)
from ._remote import RemoteFunction, remote
from ._survey import Device, DeviceLoad, Server, devices, servers
from ._version import __version__

__all__ = [
    "ConnectError",
    "Connection",
    "CudaLoadedError",
    "Device",
    "DeviceLoad",
    "RemoteError",
    "RemoteFunction",
    "RemoteTimeoutError",
    "Server",
    "WarplineError",
    "__version__",
    "connect",
    "devices",
    "remote",
    "servers",
]
