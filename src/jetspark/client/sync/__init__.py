# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""The blocking client: `connect()` and what it gives."""

from jetspark.client.sync.arrow import ArrowConsuming
from jetspark.client.sync.backup import BackupProgress
from jetspark.client.sync.batch import PublishBatch
from jetspark.client.sync.block import PublishBlock
from jetspark.client.sync.connection import Connection, connect
from jetspark.client.sync.consumer import Consumer
from jetspark.client.sync.consuming import Consuming
from jetspark.client.sync.fast_batch import FastBatch
from jetspark.client.sync.fetching import Batch
from jetspark.client.sync.jetstream import JetStream
from jetspark.client.sync.key_value import KeyValue, KeyValueEntry, KeyValueStatus, KeyWatcher
from jetspark.client.sync.msg import Msg
from jetspark.client.sync.object_store import ObjectInfo, ObjectResult, ObjectStore, ObjectWatcher
from jetspark.client.sync.ordered import OrderedConsumer
from jetspark.client.sync.ordered_subscription import OrderedSubscription
from jetspark.client.sync.processing import Processing
from jetspark.client.sync.publishing import PublishFuture
from jetspark.client.sync.pull_subscription import PullSubscription
from jetspark.client.sync.push_subscription import PushSubscription
from jetspark.client.sync.scanning import ArrowScan
from jetspark.client.sync.stream import StoredMsg, Stream
from jetspark.client.sync.subscription import Subscription

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
