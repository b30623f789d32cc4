"""The Python processes of Spark's, each of which runs one task after another: what makes many tasks cheap.

Spark's daemon collects garbage after every task, which looks at each object there is. With Spark, pandas, Arrow and
this package imported that takes tens of milliseconds, and the next task of the process waits for it.
"""

from __future__ import annotations

import gc
import sys

# What Spark's worker processes are forked from.
DAEMON = "pyspark.daemon"
_task_count = 0


def begin_task() -> None:
    """A task begins in this process. With the second one, what is there by then is left out of later collections.

    By then everything is imported, and what the first left behind has just been collected. What is made from here on
    is collected as ever. Anywhere else than in a worker of Spark's nothing happens.
    """
    global _task_count
    _task_count += 1
    if _task_count == 2 and _is_worker():
        gc.freeze()


def _is_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == DAEMON
