"""NATS JetStream for Python and Spark.

    async with await jetspark.connect("nats://127.0.0.1:4222") as connection: ...
    with jetspark.sync.connect("nats://127.0.0.1:4222") as connection: ...
    with jetspark.serve() as server: ...

The names below are loaded when they are first used, so that `import jetspark` is quick and the client half never
pulls in the server's dependencies.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jetspark import _build

if TYPE_CHECKING:
    from jetspark import sync
    from jetspark.client.aio import connect
    from jetspark.server.embedded import serve, serve_async

# Before any other module of the package is imported, so that JETSPARK_PURE=1 reaches all of them.
_build.install_finder()

__version__ = "0.1.0"

__all__ = ["__version__", "connect", "serve", "serve_async", "sync"]

_HOMES = {
    "connect": "jetspark.client.aio",
    "serve": "jetspark.server.embedded",
    "serve_async": "jetspark.server.embedded",
}


def __getattr__(name: str) -> Any:
    if name == "sync":
        return importlib.import_module("jetspark.sync")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'jetspark' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
