"""The asyncio client: `connect()` and what it gives."""

from jetspark.client.aio.arrow import ArrowConsuming
from jetspark.client.aio.backup import BackupProgress
from jetspark.client.aio.batch import PublishBatch
from jetspark.client.aio.block import PublishBlock
from jetspark.client.aio.connection import Connection, connect
from jetspark.client.aio.consumer import Consumer
from jetspark.client.aio.consuming import Consuming
from jetspark.client.aio.fast_batch import FastBatch
from jetspark.client.aio.fetching import Batch
from jetspark.client.aio.jetstream import JetStream
from jetspark.client.aio.key_value import KeyValue, KeyValueEntry, KeyValueStatus, KeyWatcher
from jetspark.client.aio.msg import Msg
from jetspark.client.aio.object_store import ObjectInfo, ObjectResult, ObjectStore, ObjectWatcher
from jetspark.client.aio.ordered import OrderedConsumer
from jetspark.client.aio.ordered_subscription import OrderedSubscription
from jetspark.client.aio.processing import Processing
from jetspark.client.aio.publishing import PublishFuture
from jetspark.client.aio.pull_subscription import PullSubscription
from jetspark.client.aio.push_subscription import PushSubscription
from jetspark.client.aio.scanning import ArrowScan
from jetspark.client.aio.stream import StoredMsg, Stream
from jetspark.client.aio.subscription import Subscription

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
    "connect",
]
