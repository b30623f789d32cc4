"""NATS JetStream for Python and Spark."""

from jetspark import _build

# Before any other module of the package is imported, so that JETSPARK_PURE=1 reaches all of them.
_build.install_finder()

__version__ = "0.1.0"

__all__ = ["__version__"]
