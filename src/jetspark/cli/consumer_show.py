"""How a consumer is shown to a person: the sections and labels of `nats consumer info`."""

from __future__ import annotations

from jetspark.api.timestamps import format_duration
from jetspark.cli.clusters import add_cluster
from jetspark.cli.durations import ago, human_count, human_duration, human_size, local_time, now_ns, wire_ns
from jetspark.cli.output import Sheet
from jetspark.cli.stream_show import add_host, user_metadata, word, yes_no
from jetspark.client.infos import ConsumerInfo, SequencePair

_PRIORITY_WORDS = {"pinned_client": "Pinned Client", "overflow": "Overflow", "prioritized": "Prioritized"}


def is_pull(info: ConsumerInfo) -> bool:
    """Messages are asked for, not pushed."""
    return not info.config.deliver_subject


def consumer_sheet(info: ConsumerInfo) -> Sheet:
    """Everything about a consumer."""
    created = local_time(wire_ns(info.created))
    sheet = Sheet(f"Information for Consumer {info.stream_name} > {info.name} created {created}")
    sheet.section("Configuration")
    _add_identity(sheet, info)
    _add_limits(sheet, info)
    if metadata := user_metadata(dict(info.config.metadata)):
        sheet.section("Metadata")
        for key, value in sorted(metadata.items()):
            sheet.row(key, value)
    add_cluster(sheet, info.cluster, "Raft Group")
    add_state(sheet, info)
    return sheet


def state_sheet(info: ConsumerInfo) -> Sheet:
    """The state alone."""
    created = local_time(wire_ns(info.created))
    sheet = Sheet(f"State for Consumer {info.stream_name} > {info.name} created {created}")
    add_state(sheet, info)
    return sheet


def _add_identity(sheet: Sheet, info: ConsumerInfo) -> None:
    config = info.config
    sheet.row("Name", info.name)
    sheet.row_if("Description", config.description)
    if not config.durable_name:
        sheet.row("Ephemeral", "true")
    if is_pull(info):
        sheet.row("Pull Mode", "true")
    else:
        sheet.row("Delivery Subject", config.deliver_subject)
    sheet.row_if("Filter Subject", config.filter_subject)
    sheet.row_if("Filter Subjects", ", ".join(config.filter_subjects))
    sheet.row("Deliver Policy", _start(info))
    sheet.row_if("Deliver Queue Group", config.deliver_group)
    sheet.row("Ack Policy", word(config.ack_policy))
    if config.ack_policy != "none":
        sheet.row("Ack Wait", human_duration(config.ack_wait))
    sheet.row("Replay Policy", word(config.replay_policy))


def _start(info: ConsumerInfo) -> str:
    config = info.config
    match str(config.deliver_policy):
        case "by_start_sequence":
            return f"From Sequence {config.opt_start_seq}"
        case "by_start_time":
            started_ns = wire_ns(str(config.opt_start_time or ""))
            return f"Since {local_time(started_ns)} ({human_duration(max(0, now_ns() - started_ns))} ago)"
        case "last_per_subject":
            return "Last Per Subject"
    return word(config.deliver_policy)


def _add_limits(sheet: Sheet, info: ConsumerInfo) -> None:
    config, pull = info.config, is_pull(info)
    rate = f"{human_count(config.rate_limit_bps)} bits per second" if config.rate_limit_bps else ""
    until_ns = wire_ns(str(config.pause_until or ""))
    policy = _PRIORITY_WORDS.get(str(config.priority_policy), "") if config.priority_groups else ""
    facts = (
        ("Maximum Deliveries", _above_zero(config.max_deliver)),
        ("Sampling Rate", config.sample_freq),
        ("Rate Limit", rate),
        ("Max Ack Pending", _above_zero(config.max_ack_pending)),
        ("Max Waiting Pulls", _above_zero(config.max_waiting) if pull else ""),
        ("Idle Heartbeat", config.idle_heartbeat and human_duration(config.idle_heartbeat)),
        ("Flow Control", "" if pull else yes_no(config.flow_control)),
        ("Headers Only", config.headers_only and "true"),
        ("Inactive Threshold", config.inactive_threshold and human_duration(config.inactive_threshold)),
        ("Max Pull Expire", config.max_expires and human_duration(config.max_expires)),
        ("Max Pull Batch", _above_zero(config.max_batch)),
        ("Max Pull MaxBytes", config.max_bytes and human_size(config.max_bytes)),
        ("Backoff", ", ".join(format_duration(step) for step in config.backoff)),
        ("Replicas", _above_zero(config.num_replicas)),
        ("Memory Storage", config.mem_storage and "true"),
        ("Paused Until Deadline", until_ns and _until(until_ns)),
        ("Priority Policy", policy),
        ("Priority Groups", ", ".join(config.priority_groups)),
        ("Pinned TTL", config.priority_timeout and human_duration(config.priority_timeout)),
    )
    for label, value in facts:
        sheet.row_if(label, value)


def _above_zero(count: int) -> str:
    return human_count(count) if count > 0 else ""


def _until(until_ns: int) -> str:
    left_ns = until_ns - now_ns()
    return local_time(until_ns) + (f" ({human_duration(left_ns)} remaining)" if left_ns > 0 else " (passed)")


def add_state(sheet: Sheet, info: ConsumerInfo) -> None:
    """Where the consumer is and what it waits for."""
    config = info.config
    sheet.section("State")
    add_host(sheet, dict(config.metadata))
    sheet.row("Last Delivered Message", _place(info.delivered, "Last delivery"))
    if config.ack_policy != "none":
        sheet.row("Acknowledgment Floor", _place(info.ack_floor, "Last Ack"))
        most = f" out of maximum {human_count(config.max_ack_pending)}" if config.max_ack_pending > 0 else ""
        sheet.row("Outstanding Acks", human_count(info.num_ack_pending) + most)
        sheet.row("Redelivered Messages", human_count(info.num_redelivered))
    sheet.row("Unprocessed Messages", human_count(info.num_pending))
    if is_pull(info):
        most = f" of maximum {human_count(config.max_waiting)}" if config.max_waiting > 0 else ""
        sheet.row("Waiting Pulls", human_count(info.num_waiting) + most)
    elif not info.push_bound:
        sheet.row("Active Interest", "No interest")
    else:
        group = f" using Queue Group {config.deliver_group}" if config.deliver_group else ""
        sheet.row("Active Interest", f"Active{group}")
    if info.paused:
        sheet.row("Paused Until", _until(now_ns() + info.pause_remaining_ns))
    if info.priority_groups:
        sheet.row("Priority Groups", "\n".join(pins(info)))


def pins(info: ConsumerInfo) -> list[str]:
    """Who is pinned in each priority group."""
    return [
        f"{one.group}: pinned {one.pinned_client_id} at {local_time(wire_ns(one.pinned_ts))}"
        if one.pinned_client_id
        else f"{one.group}: No client"
        for one in info.priority_groups
    ]


def _place(pair: SequencePair, label: str) -> str:
    text = f"Consumer sequence: {human_count(pair.consumer_seq)} Stream sequence: {human_count(pair.stream_seq)}"
    return text + (f" {label}: {ago(pair.last_active)} ago" if wire_ns(pair.last_active) else "")


CONSUMER_COLUMNS = ("Name", "Description", "Created", "Ack Pending", "Unprocessed", "Last Delivery")


def consumer_row(info: ConsumerInfo) -> tuple[str, ...]:
    """A consumer in a list."""
    return (
        info.name,
        info.config.description,
        local_time(wire_ns(info.created)),
        human_count(info.num_ack_pending),
        human_count(info.num_pending),
        ago(info.delivered.last_active),
    )
