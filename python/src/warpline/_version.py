"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("warpline")
except PackageNotFoundError:  # the sources, which have none of their own: it is the build's
    __version__ = "0+sources"
