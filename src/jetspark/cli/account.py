"""`jetspark account`: who we are here, what JetStream we use and may use, and a backup of all of it.

Decided here: the words and the layout of an account backup: a folder a stream, each as `stream backup` writes it, so
that either command restores what the other wrote. Not known here: how a stream is copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from jetspark.cli import account_report
from jetspark.cli.account_group import account
from jetspark.cli.backups import (
    SETTINGS_FILE,
    back_up,
    backup_document,
    bring_back,
    check_backup,
    patience_s,
    placement,
    placement_options,
)
from jetspark.cli.connect import connected, effective, jetstream, make_jetstream
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import human_count, human_duration, human_size, human_trip
from jetspark.cli.errors import CliError, NotFound
from jetspark.cli.output import Sheet, echo, emit_json, note
from jetspark.cli.progress import progress_bars, progress_option
from jetspark.cli.prompts import confirm, force_option
from jetspark.errors import JetsparkError

if TYPE_CHECKING:
    from jetspark.client.infos import AccountInfo
    from jetspark.sync import Connection, JetStream

__all__ = ["account", "account_report"]

USER_INFO_SUBJECT: Final = "$SYS.REQ.USER.INFO"


@account.verb("info", aliases=("nfo",))
@pass_settings
def info(settings: Settings) -> None:
    """Show the connection, the user, and what JetStream the account uses and may use."""
    with connected() as connection:
        user = _user(connection, settings)
        trip_s = connection.rtt()
        used = _usage(make_jetstream(connection, effective(settings)))
        if settings.json:
            server = connection.server_info
            server.pop("nonce", None)
            emit_json(
                {
                    "server": server,
                    "connected_url": connection.connected_url,
                    "rtt_ns": round(trip_s * 1e9),
                    "user": user,
                    "jetstream": used.raw if used else None,
                }
            )
            return
        sheet = Sheet("Account Information")
        _add_connection(sheet, connection, user, trip_s)
        if used is not None:
            _add_usage(sheet, used, connection.max_payload)
        sheet.show()
    if used is None:
        echo("JetStream is not enabled in this account, or does not answer")


def _user(connection: Connection, settings: Settings) -> dict[str, Any]:
    """What the server says of the user; nothing where it does not tell."""
    import msgspec

    try:
        reply = connection.request(USER_INFO_SUBJECT, timeout=settings.timeout_s)
        found = msgspec.json.decode(reply.data)
    except (JetsparkError, msgspec.DecodeError):
        return {}
    data = found.get("data") if isinstance(found, dict) else None
    return data if isinstance(data, dict) else {}


def _usage(js: JetStream) -> AccountInfo | None:
    from jetspark.client.api_errors import JetStreamDisabledError, NoJetStreamError
    from jetspark.client.errors import RequestTimeoutError

    try:
        return js.account_info()
    except (NoJetStreamError, JetStreamDisabledError, RequestTimeoutError):
        return None


def _add_connection(sheet: Sheet, connection: Connection, user: dict[str, Any], trip_s: float) -> None:
    server = connection.server_info
    sheet.row_if("User", user.get("user"))
    sheet.row_if("Account", user.get("account"))
    if user:
        sheet.row("System Account", str(bool(server.get("acc_is_sys"))).lower())
        expires_ns = int(user.get("expires") or 0)
        sheet.row("Expires", human_duration(expires_ns) if expires_ns else "never")
    sheet.row("Client ID", server.get("client_id", 0))
    sheet.row_if("Client IP", server.get("client_ip"))
    sheet.row("RTT", human_trip(round(trip_s * 1e9)))
    sheet.row("Headers Supported", str(bool(server.get("headers"))).lower())
    sheet.row("Maximum Payload", human_size(connection.max_payload))
    sheet.row_if("Connected Cluster", server.get("cluster"))
    sheet.row("Connected URL", connection.connected_url)
    sheet.row("Connected Server ID", server.get("server_id", ""))
    sheet.row("Connected Server Version", connection.server_version)
    if server.get("server_name") != server.get("server_id"):
        sheet.row_if("Connected Server Name", server.get("server_name"))
    sheet.row("TLS Required", "yes" if server.get("tls_required") else "no")
    permissions = user.get("permissions") or {}
    for kind in ("publish", "subscribe"):
        allowed = permissions.get(kind) or {}
        for word in ("allow", "deny"):
            sheet.row_if(f"{kind.capitalize()} {word}", ", ".join(allowed.get(word) or []))


def _of(used: int, allowed: int, write: Any = human_size) -> str:
    return f"{write(used)} of {'Unlimited' if allowed < 0 else write(allowed)}"


def _add_usage(sheet: Sheet, used: AccountInfo, payload_bytes: int) -> None:
    sheet.section("Account Usage")
    sheet.row_if("Domain", used.domain)
    sheet.row("Storage", human_size(used.storage))
    sheet.row("Memory", human_size(used.memory))
    sheet.row("Streams", human_count(used.streams))
    sheet.row("Consumers", human_count(used.consumers))
    sheet.row("API Requests", f"{human_count(int(used.api.get('total', 0)))}, errors {used.api.get('errors', 0)}")
    sheet.section("Account Limits")
    sheet.row("Max Message Payload", human_size(payload_bytes))
    tiers = used.raw.get("tiers") or {}
    if not tiers:
        _add_limits(sheet, used.raw)
    for name, tier in sorted(tiers.items()):
        sheet.section(f"Tier: {name}")
        _add_limits(sheet, tier)


def _add_limits(sheet: Sheet, tier: dict[str, Any]) -> None:
    limits = tier.get("limits") or {}

    def allowed(name: str) -> int:
        return int(limits.get(name, -1))

    for label, name in (("Storage", "storage"), ("Memory", "memory")):
        # What streams with a maximum size may still fill.
        reserved = int(tier.get(f"reserved_{name}", 0))
        kept = f" ({human_size(reserved)} reserved)" if reserved > 0 else ""
        sheet.row(label, _of(int(tier.get(name, 0)), allowed(f"max_{name}")) + kept)
    for label, name in (
        ("Storage Per Stream", "storage_max_stream_bytes"),
        ("Memory Per Stream", "memory_max_stream_bytes"),
    ):
        sheet.row(label, human_size(allowed(name)) if allowed(name) > 0 else "Unlimited")
    sheet.row("Streams", _of(int(tier.get("streams", 0)), allowed("max_streams"), human_count))
    consumers = allowed("max_consumers")
    sheet.row("Consumers", "Unlimited" if consumers < 0 else f"Maximum {human_count(consumers)} per stream")
    pending = allowed("max_ack_pending")
    sheet.row("Consumer Maximum Ack Pending", "Unlimited" if pending < 0 else human_count(pending))
    sheet.row("Stream Requires Max Bytes Set", str(bool(limits.get("max_bytes_required"))).lower())


@dataclass
class _Tally:
    """What became of the streams of an account backup, one by one."""

    done: list[dict[str, Any]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def attempt(self, name: str, move: Callable[[], dict[str, Any]]) -> None:
        """Move one stream; the others go on when it fails."""
        try:
            self.done.append(move())
        except (JetsparkError, NotFound) as error:
            self.failed[name] = str(error)

    def tell(self, settings: Settings, directory: Path, *, done: str, verb: str) -> None:
        """Each stream, then all of them in the words `done`; the command fails when one of them did."""
        if settings.json:
            emit_json({"directory": str(directory), "streams": self.done, "failed": self.failed})
        else:
            for one in self.done:
                echo(f"{one['stream']}: {human_count(one['messages'])} messages, {human_size(one['bytes'])}")
            echo(done)
        if self.failed:
            listed = "; ".join(f"{name}: {error}" for name, error in self.failed.items())
            raise CliError(f"{len(self.failed)} streams were not {verb}: {listed}")


@account.verb("backup", aliases=("snapshot",))
@click.argument("target", type=click.Path(file_okay=False, path_type=Path))
@click.option("--consumers/--no-consumers", default=True, help="Include the consumers")
@click.option("--check", is_flag=True, help="Have the server look for damage first")
@click.option(
    "--critical-warnings", "-w", is_flag=True, help="Accepted for `nats`; a stream that is not saved is a failure here"
)
@progress_option
@force_option
@pass_settings
def backup(
    settings: Settings,
    target: Path,
    consumers: bool,
    check: bool,
    critical_warnings: bool,
    progress: bool,
    force: bool,
) -> None:
    """Back every stream up, each to a folder of its own below TARGET."""
    options = {"timeout_s": patience_s(settings), "consumers": consumers, "check": check}
    tally = _Tally()
    with jetstream() as js:
        streams = sorted(js.streams(), key=lambda one: one.name)
        if not streams:
            raise NotFound("no streams here, so there is nothing to back up")
        total_bytes = sum(one.state.bytes for one in streams)
        if target.exists() and any(target.iterdir()) and not confirm(f"{target} is not empty: go on?", force=force):
            note("Skipping backup")
            return
        with progress_bars(show=progress and not settings.json, unit="bytes") as bars:

            def move(name: str) -> dict[str, Any]:
                picked = js.stream(name)
                saved = back_up(picked, target / name, bars, **options)
                return backup_document(picked, saved)

            for found in streams:
                tally.attempt(found.name, partial(move, found.name))
    done = f"Backed up {len(tally.done)} streams of {human_size(total_bytes)} to {target}"
    tally.tell(settings, target, done=done, verb="backed up")


@account.verb("restore")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@placement_options
@progress_option
@pass_settings
def restore(settings: Settings, directory: Path, progress: bool, cluster: str | None, tags: tuple[str, ...]) -> None:
    """Make every stream again that an account backup in DIRECTORY holds. Streams that exist are left alone."""
    folders = sorted(path.parent for path in directory.glob(f"*/{SETTINGS_FILE}"))
    if not folders:
        raise NotFound(
            f"{directory} holds no account backup", hint="It should have a folder for each stream, with a backup.json."
        )
    changes, tally = placement(cluster, tags), _Tally()
    with jetstream() as js, progress_bars(show=progress and not settings.json, unit="bytes") as bars:

        def move(folder: Path) -> dict[str, Any]:
            check_backup(folder)
            made = bring_back(js, folder, bars, changes=changes, timeout_s=patience_s(settings)).cached_info
            return {"stream": made.name, "messages": made.state.messages, "bytes": made.state.bytes}

        for folder in folders:
            tally.attempt(folder.name, partial(move, folder))
    done = f"Restored {len(tally.done)} of {len(folders)} streams from {directory}"
    tally.tell(settings, directory, done=done, verb="restored")
