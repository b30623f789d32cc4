"""What an operator may set about the broker: limits and defaults, as plain fields.

The edge fills these from flags and the config file; nothing here reads either.
"""

from __future__ import annotations

from typing import Final

MEBIBYTE: Final = 1024 * 1024
SECOND_NS: Final = 1_000_000_000

VERSION: Final = "2.15.1"
API_LEVEL: Final = 5

# nats-server's switches and where they stand; only the first can be set here.
FEATURE_FLAGS: Final = {
    "js_ack_fc_v2": False,
    "js_api_reply_v2": False,
    "js_raft_delete_range": True,
    "js_snapshot_sources": False,
}


class BrokerOptions:
    """Limits and defaults; the values here are nats-server's."""

    def __init__(self) -> None:
        self.server_name: str = ""
        self.server_id: str = ""
        # What INFO calls git_commit: which build this is.
        self.build: str = "jetspark"
        self.host: str = "0.0.0.0"
        self.port: int = 4222
        self.max_payload: int = MEBIBYTE
        self.max_control_line: int = 4096
        self.max_pending: int = 64 * MEBIBYTE
        self.max_subscriptions: int = 0
        self.jetstream: bool = False
        self.store_dir: str = ""
        self.domain: str = ""
        # Sync before every acknowledgement. False: written before it, synced by the edge every sync_interval.
        self.sync_always: bool = True
        self.max_memory: int = -1
        self.max_storage: int = -1
        self.max_ack_pending: int = -1
        self.max_request_batch: int = 0
        self.default_max_consumers: int = 1000
        self.duplicate_window_max_ns: int = 0
        self.strict: bool = True
        self.ack_subject_v2: bool = False
        self.batch_max_inflight_per_stream: int = 50
        self.batch_max_inflight_total: int = 1000
        self.fast_batch_max_inflight_per_stream: int = 1000
        self.fast_batch_max_inflight_total: int = 50_000
        self.batch_max_messages: int = 1000
        self.batch_timeout_ns: int = 10 * SECOND_NS
        self.tags: list[str] = []
        self.feature_flags: dict[str, bool] = dict(FEATURE_FLAGS)
        self.info_extra: dict[str, object] = {}
