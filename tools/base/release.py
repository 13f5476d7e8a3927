"""The installed release of this package."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("agentforge-sessions")
except PackageNotFoundError:  # its files are used without being installed
    __version__ = "unknown"
