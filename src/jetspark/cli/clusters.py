"""Where a cluster keeps things, in words: who leads, who follows, and how leaders are spread.

Decided here: the marks (`*` leads, `!` is behind or away) and when there is nothing to say, as on a single server.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import click

from jetspark.cli.durations import ago, human_count, human_duration
from jetspark.cli.output import Sheet, show_table

# Stars of a server that leads everything in its cluster.
STARS: Final = 10
NEVER_NS: Final = 2**63 - 1


class _Pattern(click.ParamType[re.Pattern[str]]):
    """A regular expression."""

    name = "regex"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> re.Pattern[str]:
        """Compile it, or say why it is none."""
        try:
            return re.compile(value)
        except re.error as error:
            self.fail(f"{value!r} is no regular expression: {error}", param, ctx)


PATTERN: Final = _Pattern()

# The `cluster` of an answer.
Cluster = dict[str, Any] | None


def is_clustered(cluster: Cluster) -> bool:
    """A server that is no part of a cluster tells its own id as the leader, and nothing else."""
    return bool(cluster and cluster.get("name"))


def members(cluster: Cluster) -> str:
    """The servers that have it, by name."""
    if cluster is None or not is_clustered(cluster):
        return ""
    found = [f"{cluster['leader']}*"] if cluster.get("leader") else []
    for replica in cluster.get("replicas") or []:
        is_behind = replica.get("offline") or not replica.get("current")
        found.append(f"{replica.get('name', '')}{'!' if is_behind else ''}")
    return ", ".join(sorted(found))


def add_cluster(sheet: Sheet, cluster: Cluster, group_label: str) -> None:
    """Who leads and who follows, as a section of a sheet; nothing on a single server."""
    if cluster is None or not is_clustered(cluster):
        return
    sheet.section("Cluster Information")
    sheet.row("Name", cluster["name"])
    sheet.row_if(group_label, cluster.get("raft_group"))
    leader, since = str(cluster.get("leader") or "none"), str(cluster.get("leader_since") or "")
    sheet.row("Leader", f"{leader} ({ago(since)})" if since else leader)
    for replica in cluster.get("replicas") or []:
        sheet.row("Replica", _replica(replica))


def _replica(replica: dict[str, Any]) -> str:
    parts = [str(replica.get("name", "")), "current" if replica.get("current") else "outdated"]
    if replica.get("offline"):
        parts.append("OFFLINE")
    active_ns = int(replica.get("active", 0))
    # A server that was never heard of is told as the largest number there is.
    parts.append(f"seen {human_duration(active_ns)} ago" if 0 < active_ns < NEVER_NS else "not seen")
    if lag := int(replica.get("lag", 0)):
        parts.append(f"{human_count(lag)} operation{'' if lag == 1 else 's'} behind")
    return ", ".join(parts)


def servers(cluster: Cluster) -> list[str]:
    """The names of the servers that have it; none on a single server."""
    if cluster is None or not is_clustered(cluster):
        return []
    return [str(cluster.get("leader", "")), *(str(one.get("name", "")) for one in cluster.get("replicas") or [])]


def placed(cluster: Cluster, wanted: dict[str, Any]) -> bool:
    """Is it where `find` was told to look? Names of servers and clusters are patterns, that of a leader is not."""
    known = cluster or {}
    server_name, name, leader = (wanted.get(key) for key in ("server_name", "cluster", "leader"))
    return (
        (server_name is None or any(re.search(server_name, one) for one in servers(cluster)))
        and (name is None or bool(re.search(name, str(known.get("name", "")))))
        and (leader is None or known.get("leader") == leader)
    )


def leaders(clusters: Iterable[Cluster]) -> list[tuple[str, str, int, float]]:
    """Server, cluster, how many it leads, and what part of its cluster's that is."""
    counts = Counter(
        (str(one["name"]), str(one["leader"])) for one in clusters if one and is_clustered(one) and one.get("leader")
    )
    totals: Counter[str] = Counter()
    for (name, _), count in counts.items():
        totals[name] += count
    return [
        (server, name, count, count / totals[name])
        for (name, server), count in sorted(counts.items(), key=lambda item: (item[0][0], item[1], item[0][1]))
    ]


def show_leaders(clusters: Iterable[Cluster], groups: str) -> None:
    """How many of these groups each server leads; nothing where there is no cluster."""
    rows = [
        (server, name, f"{count:,}", "*" * max(1, round(part * STARS)))
        for server, name, count, part in leaders(clusters)
    ]
    if rows:
        show_table("RAFT Leader Report", ("Server", "Cluster", groups, "Distribution"), rows, right=(groups,))
