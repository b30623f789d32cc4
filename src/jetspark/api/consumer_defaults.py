"""What the server fills into a consumer's configuration.

Decided here: defaults that depend on the ack policy, on push or pull, on the stream's `consumer_limits` and on the
server's limits; and what is quietly corrected, or refused when the request is pedantic.
Not known here: whether the result is allowed; `consumer_checks` decides that afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from jetspark.api.consumer_config import AckPolicy, ConsumerConfig, PriorityPolicy
from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.limits import AccountLimits, ServerLimits
from jetspark.api.stream_config import StreamConfig
from jetspark.api.timestamps import MINUTE, SECOND

DEFAULT_ACK_WAIT_NS: Final = 30 * SECOND
DEFAULT_MAX_ACK_PENDING: Final = 1000
DEFAULT_MAX_WAITING: Final = 512
DEFAULT_INACTIVE_THRESHOLD_NS: Final = 5 * SECOND
"""How long an ephemeral consumer may be idle when its configuration does not say."""
DEFAULT_PRIORITY_TIMEOUT_NS: Final = 2 * MINUTE
FLOW_CONTROL_ACK_HEARTBEAT_NS: Final = SECOND


def _pedantic(reason: str) -> ApiError:
    return make(ErrorCode.PEDANTIC, err=reason)


def _not_negative(name: str, value: int, *, pedantic: bool) -> int:
    if value >= 0:
        return value
    if pedantic:
        raise _pedantic(f"{name} must not be negative")
    return 0


def with_defaults(
    config: ConsumerConfig, stream: StreamConfig, server: ServerLimits, account: AccountLimits, *, pedantic: bool
) -> ConsumerConfig:
    """The configuration with every gap filled, as nats-server echoes it back."""
    config = _corrected(config, pedantic=pedantic)
    if not config.is_push and config.max_waiting == 0:
        config = replace(config, max_waiting=DEFAULT_MAX_WAITING)
    config = _with_ack_wait(config, pedantic=pedantic)
    config = _with_stream_limits(config, stream, pedantic=pedantic)
    if config.max_ack_pending == 0 and config.ack_policy != AckPolicy.NONE:
        pending = DEFAULT_MAX_ACK_PENDING
        for limit in (server.max_ack_pending, account.max_ack_pending):
            if 0 < limit < pending:
                pending = limit
        config = replace(config, max_ack_pending=pending)
    if not config.is_push and config.max_batch == 0 and server.max_request_batch > 0:
        if pedantic:
            raise _pedantic("max_request_batch must be set if it's JetStream limits are set")
        config = replace(config, max_batch=server.max_request_batch)
    if config.priority_policy == PriorityPolicy.PINNED_CLIENT and config.priority_timeout == 0:
        config = replace(config, priority_timeout=DEFAULT_PRIORITY_TIMEOUT_NS)
    if config.ack_policy == AckPolicy.FLOW_CONTROL and not pedantic:
        config = replace(config, flow_control=True, idle_heartbeat=FLOW_CONTROL_ACK_HEARTBEAT_NS)
    return config


def _corrected(config: ConsumerConfig, *, pedantic: bool) -> ConsumerConfig:
    """Negative numbers that mean nothing become the number that means "not set"."""
    if pedantic and config.max_deliver < -1:
        raise _pedantic("max_deliver must be set to -1")
    max_waiting = _not_negative("max_waiting", config.max_waiting, pedantic=pedantic)
    if pedantic and config.max_ack_pending < -1:
        raise _pedantic("max_ack_pending must be set to -1")
    return replace(
        config,
        max_deliver=config.max_deliver if config.max_deliver > 0 else -1,
        max_waiting=max_waiting,
        max_ack_pending=max(config.max_ack_pending, -1),
        max_batch=_not_negative("max_batch", config.max_batch, pedantic=pedantic),
        max_expires=_not_negative("max_expires", config.max_expires, pedantic=pedantic),
        max_bytes=_not_negative("max_bytes", config.max_bytes, pedantic=pedantic),
        idle_heartbeat=_not_negative("idle_heartbeat", config.idle_heartbeat, pedantic=pedantic),
        inactive_threshold=_not_negative("inactive_threshold", config.inactive_threshold, pedantic=pedantic),
        priority_timeout=_not_negative("priority_timeout", config.priority_timeout, pedantic=pedantic),
    )


def _with_ack_wait(config: ConsumerConfig, *, pedantic: bool) -> ConsumerConfig:
    ack_wait = config.ack_wait
    if ack_wait == 0 and config.ack_policy in (AckPolicy.EXPLICIT, AckPolicy.ALL):
        ack_wait = DEFAULT_ACK_WAIT_NS
    if config.backoff:
        if pedantic and ack_wait != config.backoff[0]:
            raise _pedantic("first backoff value has to equal batch AckWait")
        ack_wait = config.backoff[0]
    return replace(config, ack_wait=ack_wait)


def _with_stream_limits(config: ConsumerConfig, stream: StreamConfig, *, pedantic: bool) -> ConsumerConfig:
    limits = stream.consumer_limits
    if config.max_ack_pending == 0:
        if pedantic and limits.max_ack_pending > 0:
            raise _pedantic("max_ack_pending must be set if it's configured in stream limits")
        config = replace(config, max_ack_pending=limits.max_ack_pending)
    if config.inactive_threshold == 0:
        if pedantic and limits.inactive_threshold > 0:
            raise _pedantic("inactive_threshold must be set if it's configured in stream limits")
        config = replace(config, inactive_threshold=limits.inactive_threshold)
    return config
