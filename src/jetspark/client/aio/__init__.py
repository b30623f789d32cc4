"""The asyncio client: `connect()` and what it gives."""

from jetspark.client.aio.connection import Connection, connect
from jetspark.client.aio.msg import Msg
from jetspark.client.aio.subscription import Subscription

__all__ = ["Connection", "Msg", "Subscription", "connect"]
