"""What can go wrong, by name."""

from __future__ import annotations


class WarplineError(Exception):
    """The base of all exceptions of this package."""


class CudaLoadedError(WarplineError):
    """CUDA is in this process already, by another driver or with other settings: it is too late to choose."""


class ConnectError(WarplineError):
    """No server takes this program, or answers. The text has the reason of each."""


class RemoteError(WarplineError):
    """A remote function's process ended without a result, or its result or exception cannot travel."""


class RemoteTimeoutError(RemoteError, TimeoutError):
    """A remote function took longer than its `timeout`; its process and all that it has started were killed."""
