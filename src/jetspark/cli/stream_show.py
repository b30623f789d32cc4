"""How a stream is shown to a person: the sections and labels of `nats stream info`."""

from __future__ import annotations

from typing import Any

from jetspark.cli.clusters import add_cluster
from jetspark.cli.durations import ago, human_count, human_duration, human_size, limit, local_time, wire_ns
from jetspark.cli.output import Sheet
from jetspark.client.infos import StreamInfo

_WORDS = {"workqueue": "WorkQueue", "s2": "S2 Compression"}


def word(value: object) -> str:
    """A wire word with a capital: limits, Limits."""
    text = str(value)
    return _WORDS.get(text, text[:1].upper() + text[1:])


def yes_no(value: bool) -> str:
    """As `nats` writes a switch."""
    return "true" if value else "false"


def plain_document(raw: dict[str, Any]) -> dict[str, Any]:
    """An answer of the API without its envelope."""
    return {key: value for key, value in raw.items() if key not in ("type", "total", "offset", "limit")}


def user_metadata(metadata: dict[str, str]) -> dict[str, str]:
    """What people wrote; the server's own notes start with an underscore."""
    return {key: value for key, value in metadata.items() if not key.startswith("_nats.")}


def stream_sheet(info: StreamInfo) -> Sheet:
    """Everything about a stream."""
    config = info.config
    sheet = Sheet(f"Information for Stream {info.name} created {local_time(wire_ns(info.created))}")
    sheet.row_if("Description", config.description)
    sheet.row_if("Subjects", ", ".join(config.subjects))
    sheet.row("Replicas", config.num_replicas)
    sheet.row("Storage", word(config.storage))
    if config.compression != "none":
        sheet.row("Compression", word(config.compression))
    if config.placement is not None:
        sheet.row_if("Placement Cluster", config.placement.cluster)
        sheet.row_if("Placement Tags", ", ".join(config.placement.tags))
    if config.subject_transform is not None:
        sheet.row("Subject Transform", f"{config.subject_transform.src} to {config.subject_transform.dest}")
    if config.republish is not None:
        headers = " (headers only)" if config.republish.headers_only else ""
        sheet.row("Republishing", f"{config.republish.src} to {config.republish.dest}{headers}")
    _add_options(sheet, info)
    _add_limits(sheet, info)
    if metadata := user_metadata(dict(config.metadata)):
        sheet.section("Metadata")
        for key, value in sorted(metadata.items()):
            sheet.row(key, value)
    _add_replication(sheet, info)
    add_cluster(sheet, info.cluster, "Cluster Group")
    add_state(sheet, info)
    return sheet


def _add_options(sheet: Sheet, info: StreamInfo) -> None:
    config = info.config
    sheet.section("Options")
    sheet.row("Retention", word(config.retention))
    sheet.row("Acknowledgments", yes_no(not config.no_ack))
    policy = word(config.discard) + (" Per Subject" if config.discard_new_per_subject else "")
    sheet.row("Discard Policy", policy)
    sheet.row("Duplicate Window", human_duration(config.duplicate_window))
    if config.sealed:
        sheet.row("Sealed", "true")
    sheet.row("Direct Get", yes_no(config.allow_direct))
    if config.mirror is not None:
        sheet.row("Mirror Direct Get", yes_no(config.mirror_direct))
    sheet.row("Allows Atomic Batch Publish", yes_no(config.allow_atomic))
    sheet.row("Allows Fast Batch Publish", yes_no(config.allow_batched))
    sheet.row("Allows Counters", yes_no(config.allow_msg_counter))
    sheet.row("Allows Msg Delete", yes_no(not config.deny_delete))
    sheet.row("Allows Per-Message TTL", yes_no(config.allow_msg_ttl))
    if config.subject_delete_marker_ttl:
        sheet.row("Subject Delete Markers TTL", human_duration(config.subject_delete_marker_ttl))
    sheet.row("Allows Purge", yes_no(not config.deny_purge))
    sheet.row("Allows Schedules", yes_no(config.allow_msg_schedules))
    sheet.row("Allows Rollups", yes_no(config.allow_rollup_hdrs))
    if config.persist_mode != "default":
        sheet.row("Persist Mode", word(config.persist_mode))


def _add_limits(sheet: Sheet, info: StreamInfo) -> None:
    config = info.config
    sheet.section("Limits")
    sheet.row("Maximum Messages", limit(config.max_msgs))
    sheet.row("Maximum Per Subject", limit(config.max_msgs_per_subject))
    sheet.row("Maximum Bytes", limit(config.max_bytes, human_size))
    sheet.row("Maximum Age", limit(config.max_age, human_duration))
    sheet.row("Maximum Message Size", limit(config.max_msg_size, human_size))
    sheet.row("Maximum Consumers", limit(config.max_consumers))
    if config.consumer_limits.max_ack_pending:
        sheet.row("Consumer Max Ack Pending", human_count(config.consumer_limits.max_ack_pending))
    if config.consumer_limits.inactive_threshold:
        sheet.row("Consumer Inactive Threshold", human_duration(config.consumer_limits.inactive_threshold))


def _add_replication(sheet: Sheet, info: StreamInfo) -> None:
    config = info.config
    if config.mirror is None and not config.sources:
        return
    sheet.section("Replication")
    if config.mirror is not None:
        sheet.row("Mirror", config.mirror.name)
    sheet.row_if("Sources", ", ".join(source.name for source in config.sources))
    lags = [("Mirror Information", info.mirror), *(("Source Information", source) for source in info.sources)]
    for title, lag in lags:
        if not lag:
            continue
        sheet.section(title)
        sheet.row("Stream Name", lag.get("name", ""))
        sheet.row("Lag", human_count(int(lag.get("lag", 0))))
        active_ns = int(lag.get("active", -1))
        sheet.row("Last Seen", "never" if active_ns < 0 else human_duration(active_ns))
        if error := lag.get("error"):
            sheet.row("Error", f"{error.get('description', '')} ({error.get('err_code', 0)})")


def api_level(metadata: dict[str, str]) -> str:
    """What a server must know to keep it."""
    return metadata.get("_nats.req.level", "0")


def add_host(sheet: Sheet, metadata: dict[str, str]) -> None:
    """Which server keeps it."""
    if version := metadata.get("_nats.ver"):
        sheet.row("Host Version", version)
    if level := metadata.get("_nats.level"):
        sheet.row("Required API Level", f"{api_level(metadata)} hosted at level {level}")


def add_state(sheet: Sheet, info: StreamInfo) -> None:
    """What is in the stream now."""
    state = info.state
    sheet.section("State")
    add_host(sheet, dict(info.config.metadata))
    sheet.row("Messages", human_count(state.messages))
    sheet.row("Bytes", human_size(state.bytes))
    if state.lost is not None and state.lost.msgs:
        sheet.row("Lost Messages", f"{human_count(len(state.lost.msgs))} ({human_size(state.lost.bytes)})")
    sheet.row("First Sequence", _sequence(state.first_seq, str(state.first_ts)))
    sheet.row("Last Sequence", _sequence(state.last_seq, str(state.last_ts)))
    if state.num_deleted:
        sheet.row("Deleted Messages", human_count(state.num_deleted))
    sheet.row("Active Consumers", human_count(state.consumer_count))
    if state.num_subjects:
        sheet.row("Number of Subjects", human_count(state.num_subjects))


def _sequence(sequence: int, time: str) -> str:
    moment_ns = wire_ns(time)
    return human_count(sequence) + (f" @ {local_time(moment_ns)}" if moment_ns else "")


def stream_row(info: StreamInfo) -> tuple[str, ...]:
    """A stream in a list."""
    state = info.state
    return (
        info.name,
        info.config.description,
        local_time(wire_ns(info.created)),
        human_count(state.messages),
        human_size(state.bytes),
        ago(str(state.last_ts)),
    )


NO_STREAMS = "No Streams defined; make one with: jetspark stream add"
STREAM_COLUMNS = ("Name", "Description", "Created", "Messages", "Size", "Last Message")
