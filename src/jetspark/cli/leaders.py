"""Moving the leaders of streams and consumers about in a cluster: one of them away, or all of them evenly.

Decided here: how long a new leader is waited for, and which leaders go where for each server to have its share. Not
known here: what is led; a command hands in its place in the API.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from jetspark.cli.clusters import Cluster, is_clustered, show_leaders
from jetspark.cli.context import Settings
from jetspark.cli.errors import FAILED, TIMED_OUT, CliError, UsageError
from jetspark.cli.names import complete_peer
from jetspark.cli.output import echo, emit_json, note
from jetspark.cli.progress import progress_bar
from jetspark.clock import SystemClock
from jetspark.errors import JetsparkError

if TYPE_CHECKING:
    from jetspark.sync import JetStream

# An election takes some hundred milliseconds; a look costs the server little.
LOOK_AGAIN_S: Final = 0.1
LOOK_TIMEOUT_S: Final = 1.0
# A server says how much of the API it knows; this much lets one say who should lead.
PREFERRED_LEVEL: Final = 1

preferred_option = click.option(
    "--preferred",
    metavar="SERVER",
    default="",
    shell_complete=complete_peer,
    help="Prefer this server as the new leader",
)


@dataclass(frozen=True)
class Led:
    """A stream or a consumer, as far as its leader goes."""

    label: str
    """As a person calls it: stream ORDERS."""
    kind: str
    """The API's noun for it: STREAM or CONSUMER."""
    path: str
    """Its place in the API's subjects: ORDERS, or ORDERS.worker."""

    def leader(self, js: JetStream) -> str:
        """Who leads it now; nobody while there is an election."""
        try:
            answer = js.api_request(f"{self.kind}.INFO.{self.path}", timeout=LOOK_TIMEOUT_S)
        except (JetsparkError, TimeoutError):
            # Nobody answers for what nobody leads.
            return ""
        return str((answer.get("cluster") or {}).get("leader") or "")


def _followers(cluster: Cluster) -> list[dict[str, Any]]:
    return list((cluster or {}).get("replicas") or [])


def require_followers(one: Led, cluster: Cluster, edit: str) -> None:
    """Refuse what has nobody to hand over to; `edit` is the command that gives it more replicas."""
    if not is_clustered(cluster):
        raise not_clustered(one.label)
    if not _followers(cluster):
        name = (cluster or {}).get("leader", "")
        raise CliError(f"{one.label} is on {name} alone: no other server can lead it", hint=f"Spread it with: {edit}")


def not_clustered(label: str, verb: str = "is") -> CliError:
    """There is one server, and no cluster."""
    hint = "Leaders and peers exist in a cluster of nats-servers; name one of its servers with --server or --context."
    return CliError(f"{label} {verb} not clustered: the server here is on its own", hint=hint, exit_code=FAILED)


def check_preferred(js: JetStream, preferred: str, cluster: Cluster) -> None:
    """A server that is to lead must be one of the followers, and the cluster must know how to be asked."""
    names = [str(one.get("name", "")) for one in _followers(cluster)]
    if preferred not in names:
        leads = " leads already" if preferred == (cluster or {}).get("leader") else " does not follow"
        raise UsageError(f"{preferred}{leads}; followers here: {', '.join(sorted(names))}")
    if int(js.account_info().api.get("level", 0)) < PREFERRED_LEVEL:
        raise CliError("choosing the next leader needs nats-server 2.11 or later on every server of the cluster")


def step_down(js: JetStream, one: Led, previous: str, *, preferred: str, timeout_s: float) -> str:
    """Make the leader stand down and wait for the next; its name.

    Fails when nobody, or nobody else, leads in time.
    """
    document = {"placement": {"preferred": preferred}} if preferred else None
    js.api_request(f"{one.kind}.LEADER.STEPDOWN.{one.path}", document)
    clock = SystemClock()
    deadline_ns = clock.monotonic_ns() + round(timeout_s * 1e9)
    while True:
        leader = one.leader(js)
        if leader and leader != previous:
            return leader
        if clock.monotonic_ns() >= deadline_ns:
            break
        time.sleep(LOOK_AGAIN_S)
    outcome = f"{leader} leads it again" if leader else "nobody leads it"
    raise CliError(
        f"{one.label} has no new leader in time: {outcome}", hint="Wait longer with --timeout.", exit_code=TIMED_OUT
    )


def stand_down(js: JetStream, one: Led, cluster: Cluster, *, preferred: str, force: bool, timeout_s: float) -> None:
    """What both `step-down` commands do, and tell on the way."""
    leader = str((cluster or {}).get("leader") or "")
    if not leader and not force:
        raise CliError(f"{one.label} has no leader now", hint="Ask for an election anyway with --force.")
    if preferred:
        check_preferred(js, preferred, cluster)
    peers = len(_followers(cluster)) + 1
    note(f'Requesting leader step down of "{leader or "unknown"}" for {one.label} in a {peers} peer cluster group')
    note(f'New leader elected "{step_down(js, one, leader, preferred=preferred, timeout_s=timeout_s)}"')


@dataclass(frozen=True)
class Move:
    """One leader that should change."""

    name: str
    from_server: str
    to_server: str


def even_moves(found: Iterable[tuple[str, Cluster]]) -> list[Move]:
    """Which of these should be led by another server for each server of a cluster to lead about as many.

    A leader goes only to a follower that is up to date, and only where it evens things out: from a server that leads
    at least two more. What one server has alone stays, and counts where it is.
    """
    by_cluster: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, cluster in found:
        if cluster is not None and is_clustered(cluster) and cluster.get("leader"):
            by_cluster.setdefault(str(cluster["name"]), []).append((name, cluster))
    return [move for _, members in sorted(by_cluster.items()) for move in _even_moves_within(members)]


def _even_moves_within(members: list[tuple[str, dict[str, Any]]]) -> Iterator[Move]:
    leader_of = {name: str(cluster["leader"]) for name, cluster in members}
    able = {
        name: [str(one["name"]) for one in _followers(cluster) if one.get("current") and not one.get("offline")]
        for name, cluster in members
    }
    counts = Counter(leader_of.values())
    while True:
        # The largest step first; names break ties, so that the same cluster is always moved the same way.
        steps = [
            (counts[leader] - counts[follower], name, leader, follower)
            for name, leader in leader_of.items()
            for follower in able[name]
        ]
        most, name, leader, follower = max(steps, default=(0, "", "", ""))
        if most < 2:
            return
        counts[leader] -= 1
        counts[follower] += 1
        # Moved once, it stays: another election would only cost time.
        del leader_of[name]
        yield Move(name, leader, follower)


@dataclass
class Balance:
    """What became of the moves."""

    kind: str
    moved: list[Move] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """For a script."""
        moved = [{"name": one.name, "from": one.from_server, "to": one.to_server} for one in self.moved]
        return {"balanced": len(moved), "moved": moved, "failed": self.failed}


def balance(
    js: JetStream, settings: Settings, found: dict[str, Led], clusters: dict[str, Cluster], *, kind: str
) -> Balance:
    """Spread the leaders of what was found over the servers that have it, one election after the other."""
    if found and not any(is_clustered(one) for one in clusters.values()):
        raise not_clustered(f"these {kind}", "are")
    moves = even_moves(clusters.items())
    result = Balance(kind)
    with progress_bar("Balancing", len(moves), unit=kind, show=not settings.json) as bar:
        for move in moves:
            try:
                now = step_down(
                    js, found[move.name], move.from_server, preferred=move.to_server, timeout_s=settings.timeout_s
                )
                result.moved.append(Move(move.name, move.from_server, now))
            except (JetsparkError, CliError) as error:
                result.failed[move.name] = str(error)
            bar.advance()
    return result


def show_balance(settings: Settings, result: Balance, clusters: Iterable[Cluster], *, where: str = "") -> None:
    """Each move, how many there were, and who leads how many now; the command fails when a move did."""
    if settings.json:
        emit_json(result.document())
    else:
        for one in result.moved:
            note(f"{one.name}: {one.from_server} to {one.to_server}")
        echo(f"Balanced {len(result.moved)} {result.kind}{where}")
        show_leaders(clusters, result.kind.capitalize())
    if result.failed:
        listed = "; ".join(f"{name}: {error}" for name, error in result.failed.items())
        raise CliError(f"{len(result.failed)} {result.kind} kept their leader: {listed}")
