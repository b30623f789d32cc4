"""The /subsz, /accountz and /accstatz documents: subscriptions and accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetspark.api.timestamps import format_time
from jetspark.broker.account import Account
from jetspark.broker.interest import Subscription
from jetspark.protocol.subjects import is_literal, matches
from jetspark.server.connz import subscription_detail
from jetspark.server.query import BadQuery, Query

if TYPE_CHECKING:
    from jetspark.server.server import Server


def subsz(server: Server, query: Query) -> dict[str, Any]:
    shows_list = query.flag("subs")
    offset, limit = query.page()
    wanted, test = query.text("acc"), query.text("test")
    if test and not is_literal(test.encode()):
        raise BadQuery(f"invalid test subject, must be valid publish subject: {test}")
    accounts = [account for name, account in server.broker.accounts.items() if wanted in ("", name)]
    document = {
        "server_id": server.server_id,
        "now": format_time(server.clock.now_ns()),
        **_interest_stats(accounts),
        "total": 0,
        "offset": offset,
        "limit": limit,
    }
    if shows_list:
        found = [
            subscription
            for account in accounts
            for subscription in _subscriptions(server, account)
            if not test or matches(subscription.subject, test.encode())
        ]
        document["total"] = len(found)
        document["subscriptions_list"] = [_listed(item) for item in found[offset : offset + limit]]
    return document


def _interest_stats(accounts: list[Account]) -> dict[str, Any]:
    cached = [route for account in accounts for route in account.interest.routes.values()]
    fanouts = [len(route.plain) + len(route.queues) for route in cached]
    match_count = sum(account.interest.match_count for account in accounts)
    return {
        "num_subscriptions": sum(account.interest.subscription_count for account in accounts),
        "num_cache": len(cached),
        "num_inserts": sum(account.interest.insert_count for account in accounts),
        "num_removes": sum(account.interest.remove_count for account in accounts),
        "num_matches": match_count,
        "cache_hit_rate": max(0.0, 1 - len(cached) / match_count) if match_count else 0,
        "max_fanout": max(fanouts, default=0),
        "avg_fanout": sum(fanouts) / len(fanouts) if fanouts else 0,
    }


def _subscriptions(server: Server, account: Account) -> list[Subscription]:
    return [
        subscription
        for session in server.broker.sessions.values()
        if session.account is account
        for subscription in session.subscriptions.values()
    ]


def _listed(subscription: Subscription) -> dict[str, Any]:
    name = subscription.session.account.name
    return {"account": name, "account_tag": name, **subscription_detail(subscription, subscription.session.session_id)}


def accountz(server: Server, query: Query) -> dict[str, Any]:
    document: dict[str, Any] = {
        "server_id": server.server_id,
        "now": format_time(server.clock.now_ns()),
        "system_account": server.options.system_account,
    }
    wanted = query.text("acc")
    if not wanted:
        document["accounts"] = list(server.broker.accounts)
        return document
    document["account_detail"] = account_detail(server, query)
    return document


def account_detail(server: Server, query: Query) -> dict[str, Any]:
    """One account."""
    name = query.text("acc")
    account = server.broker.accounts.get(name)
    if account is None:
        raise BadQuery(f"Account {name} does not exist")
    return {
        "account_name": account.name,
        "update_time": format_time(server.config_load_ns),
        "expired": False,
        "complete": True,
        "jetstream_enabled": server.broker.options.jetstream and account.jetstream.enabled,
        "leafnode_connections": 0,
        "client_connections": len(_sessions(server, account)),
        "subscriptions": account.interest.subscription_count,
        "name_tag": account.name,
        "sublist_stats": _interest_stats([account]),
    }


def _sessions(server: Server, account: Account) -> list[Any]:
    return [session for session in server.broker.sessions.values() if session.account is account]


def accstatz(server: Server, query: Query) -> dict[str, Any]:
    """The totals of the accounts: of all that have connections, of one, or of those in a list."""
    shows_unused = query.flag("unused")
    chosen = query.text("acc") or query.text("accounts_list")
    names = chosen.split(",") if chosen else list(server.broker.accounts)
    accounts = [server.broker.accounts[name] for name in names if name in server.broker.accounts]
    stats = [account_totals(server, account) for account in accounts if shows_unused or _sessions(server, account)]
    return {"server_id": server.server_id, "now": format_time(server.clock.now_ns()), "account_statz": stats}


def account_totals(server: Server, account: Account) -> dict[str, Any]:
    """Connections of one account, and their traffic."""
    sessions = _sessions(server, account)
    sent = _traffic(sum(session.out_msgs for session in sessions), sum(session.out_bytes for session in sessions))
    received = _traffic(sum(session.in_msgs for session in sessions), sum(session.in_bytes for session in sessions))
    return {
        "acc": account.name,
        "name": account.name,
        "conns": len(sessions),
        "leafnodes": 0,
        "total_conns": len(sessions),
        "num_subscriptions": account.interest.subscription_count,
        "sent": sent,
        "received": received,
        "slow_consumers": 0,
    }


def _traffic(msgs: int, size_bytes: int) -> dict[str, Any]:
    none = {"msgs": 0, "bytes": 0}
    return {"msgs": msgs, "bytes": size_bytes, "gateways": none, "routes": none, "leafs": none}
