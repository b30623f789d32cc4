"""The blocking client: `jetspark.sync.connect()`; the same names as `jetspark.connect()` gives."""

from jetspark.client.sync import *  # noqa: F403 - another name for that module
from jetspark.client.sync import __all__ as __all__
