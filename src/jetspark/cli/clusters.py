"""Where a cluster keeps things, in words: who leads, who follows, and how leaders are spread.

Decided here: the marks (`*` leads, `!` is behind or away) and when there is nothing to say, as on a single server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from jetspark.cli.output import show_table

# Stars of a server that leads everything in its cluster.
STARS: Final = 10

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
