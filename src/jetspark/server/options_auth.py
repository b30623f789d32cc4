"""The authorization and accounts blocks: who may connect, and what each may do.

Decided here: the shapes nats-server accepts for users, permissions and accounts, and which of its account features
are refused. Not known here: how a password is checked or a permission applied (`auth`, `broker.permissions`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from jetspark.api.timestamps import parse_duration
from jetspark.server.config_file import Node
from jetspark.server.config_values import (
    ConfigError,
    Problems,
    boolean,
    entries,
    integer,
    items,
    kind,
    seconds,
    string,
    strings,
    wrong,
)
from jetspark.server.options import (
    GLOBAL_ACCOUNT,
    MINUTE_NS,
    AccountJetStreamOptions,
    AccountOptions,
    Options,
    PermissionOptions,
    UserOptions,
)

_CONNECTION_TYPES: Final = frozenset(
    {"STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS"}
)
_USER_NKEY: Final = re.compile("U[A-Z2-7]{55}")
_AUTH_TIMEOUT_WARN_S: Final = 60.0


def unsupported(node: Node, name: str) -> ConfigError:
    """The answer to a setting that nats-server has and this server does not."""
    return wrong(node, f'"{name}" is not supported by this server')


class AuthReader:
    """Fills the login part of the options; users may come from either block, so duplicates are found across both."""

    def __init__(self, options: Options, problems: Problems) -> None:
        self._options = options
        self._problems = problems
        self._names: set[str] = set()

    def authorization(self, node: Node) -> None:
        """The authorization block: one login, a token, or a list of users of the global account."""
        options = self._options
        users: list[UserOptions] = []
        default: list[PermissionOptions] = []

        def refuse(name: str, value: Node) -> None:
            raise unsupported(value, name)

        def timeout(value: Node) -> None:
            options.auth_timeout_s = seconds(value, "timeout")
            if options.auth_timeout_s > _AUTH_TIMEOUT_WARN_S:
                self._problems.warnings.append(
                    f'{value.place}: invalid use of field "timeout": timeout of {options.auth_timeout_s:g} seconds is '
                    "high, consider keeping it under 60 seconds"
                )

        def users_list(value: Node) -> None:
            options.is_users_list_present = True
            users.extend(self._users(value, GLOBAL_ACCOUNT))

        self._problems.read_map(
            node,
            {
                "user": lambda value: setattr(options, "username", string(value)),
                "password": lambda value: setattr(options, "password", string(value)),
                "token": lambda value: setattr(options, "token", string(value)),
                "timeout": timeout,
                "users": users_list,
                "default_permissions": lambda value: default.append(self.permissions(value)),
                "auth_callout": lambda value: refuse("auth_callout", value),
                "proxy_required": lambda value: refuse("proxy_required", value),
            },
            {
                "username": "user",
                "pass": "password",
                "default_permission": "default_permissions",
                "permissions": "default_permissions",
                "auth_hook": "auth_callout",
            },
        )
        self._add_users(node, users, default[0] if default else None)
        if options.token and (options.username or options.password):
            raise wrong(node, "Cannot have a user/pass and token")

    def check_single_login(self, node: Node) -> None:
        """A single login and a list of users exclude each other; called when both blocks have been read."""
        options = self._options
        if not (options.users or options.is_users_list_present):
            return
        if options.username:
            raise wrong(node, "Can not have a single user/pass and a users array")
        if options.token:
            raise wrong(node, "Can not have a token and a users array")

    def accounts(self, node: Node) -> None:
        """The accounts block: a list of names, or a map of accounts with their users."""
        if isinstance(node.value, list):
            for item in node.value:
                self._new_account(string(item), item)
            return
        for name, item in entries(node).items():
            if item.is_used_variable:
                continue
            if not isinstance(item.value, dict):
                self._problems.errors.append(f"{item.place}: Expected map entries for accounts")
                continue
            try:
                self._account(self._new_account(name, item), item)
            except ConfigError as error:
                self._problems.errors.append(str(error))

    def _new_account(self, name: str, node: Node) -> AccountOptions:
        if name == GLOBAL_ACCOUNT:
            raise wrong(node, f'"{name}" is a Reserved Account')
        if name in self._options.accounts:
            raise wrong(node, f"Duplicate Account Entry: {name}")
        account = AccountOptions(name=name)
        self._options.accounts[name] = account
        return account

    def _account(self, account: AccountOptions, node: Node) -> None:
        users: list[UserOptions] = []
        default: list[PermissionOptions] = []

        def refuse(name: str, value: Node) -> None:
            raise unsupported(value, f"accounts.{account.name}.{name}")

        def jetstream(value: Node) -> None:
            account.jetstream = self._account_jetstream(value)

        self._problems.read_map(
            node,
            {
                "users": lambda value: users.extend(self._users(value, account.name)),
                "default_permissions": lambda value: default.append(self.permissions(value)),
                "jetstream": jetstream,
                "limits": lambda value: self._account_limits(account, value),
                "nkey": lambda value: refuse("nkey", value),
                "imports": lambda value: refuse("imports", value),
                "exports": lambda value: refuse("exports", value),
                "mappings": lambda value: refuse("mappings", value),
                "msg_trace": lambda value: refuse("msg_trace", value),
            },
            {"maps": "mappings", "trace_dest": "msg_trace"},
        )
        self._add_users(node, users, default[0] if default else None)

    def _add_users(self, node: Node, users: list[UserOptions], default: PermissionOptions | None) -> None:
        for user in users:
            name = user.name or user.nkey
            if name in self._names:
                what = "user" if user.name else "nkey"
                self._problems.errors.append(f'{node.place}: Duplicate {what} "{name}" detected')
                continue
            self._names.add(name)
            if user.permissions is None:
                user.permissions = default
            self._options.users.append(user)

    def _account_limits(self, account: AccountOptions, node: Node) -> None:
        for key, value in entries(node).items():
            name = key.lower()
            if name in ("max_connections", "max_conn"):
                account.max_connections = integer(value)
            elif name in ("max_subscriptions", "max_subs", "max_payload", "max_pay", "max_leafnodes", "max_leafs"):
                raise unsupported(value, f"accounts.{account.name}.limits.{key}")
            elif not value.is_used_variable:
                self._problems.errors.append(f'{value.place}: Unknown field "{key}" parsing account limits')

    def _account_jetstream(self, node: Node) -> AccountJetStreamOptions | None:
        if isinstance(node.value, bool):
            return AccountJetStreamOptions() if node.value else None
        if isinstance(node.value, str):
            return AccountJetStreamOptions() if enabled_word(node) else None
        limits = AccountJetStreamOptions()
        sizes = {
            "max_memory": "max_memory_bytes",
            "max_store": "max_storage_bytes",
            "max_streams": "max_streams",
            "max_consumers": "max_consumers",
            "max_ack_pending": "max_ack_pending",
            "mem_max_stream_bytes": "memory_stream_bytes_max",
            "disk_max_stream_bytes": "storage_stream_bytes_max",
        }
        self._problems.read_map(
            node,
            {
                **{key: _number_into(limits, name) for key, name in sizes.items()},
                "max_bytes_required": lambda value: setattr(limits, "is_max_bytes_required", boolean(value)),
                # Only says which account carries replication traffic: nothing to do on a single server.
                "cluster_traffic": lambda value: None,
            },
            {
                **dict.fromkeys(("max_mem", "mem", "memory"), "max_memory"),
                **dict.fromkeys(("max_file", "max_disk", "store", "disk"), "max_store"),
                "streams": "max_streams",
                "consumers": "max_consumers",
                "memory_max_stream_bytes": "mem_max_stream_bytes",
                "store_max_stream_bytes": "disk_max_stream_bytes",
                "max_stream_bytes": "max_bytes_required",
                "max_bytes": "max_bytes_required",
            },
        )
        return limits

    def _users(self, node: Node, account: str) -> list[UserOptions]:
        if not isinstance(node.value, list):
            raise wrong(node, f"Expected users field to be an array, got {kind(node)}")
        users: list[UserOptions] = []
        for item in node.value:
            if not isinstance(item.value, dict):
                self._problems.errors.append(f"{item.place}: Expected user entry to be a map/struct, got {kind(item)}")
                continue
            users.append(self._user(item, account))
        return users

    def _user(self, node: Node, account: str) -> UserOptions:
        user = UserOptions(account=account)

        def refuse(name: str, value: Node) -> None:
            raise unsupported(value, name)

        def permissions(value: Node) -> None:
            user.permissions = self.permissions(value)

        def connection_types(value: Node) -> None:
            user.connection_types = frozenset(word.upper() for word in strings(value, "allowed connection types"))
            if unknown := sorted(user.connection_types - _CONNECTION_TYPES):
                raise wrong(value, f"invalid connection types {unknown}")

        self._problems.read_map(
            node,
            {
                "user": lambda value: setattr(user, "name", string(value)),
                "password": lambda value: setattr(user, "password", string(value)),
                "nkey": lambda value: setattr(user, "nkey", string(value)),
                "permissions": permissions,
                "allowed_connection_types": connection_types,
                "proxy_required": lambda value: refuse("proxy_required", value),
            },
            {
                "username": "user",
                "pass": "password",
                "permission": "permissions",
                "authorization": "permissions",
                "connection_types": "allowed_connection_types",
                "clients": "allowed_connection_types",
            },
        )
        if not user.name and not user.nkey:
            raise wrong(node, "User entry requires a user")
        if user.nkey and not _USER_NKEY.fullmatch(user.nkey):
            raise wrong(node, "Not a valid public nkey for a user")
        if user.nkey and (user.name or user.password):
            raise wrong(node, "Nkey users do not take usernames or passwords")
        return user

    def permissions(self, node: Node) -> PermissionOptions:
        """A permissions map."""
        if not isinstance(node.value, dict):
            raise wrong(node, f"Expected permissions to be a map/struct, got {kind(node)}")
        result = PermissionOptions()
        for key, value in node.value.items():
            name = key.lower()
            if name in ("pub", "publish", "import"):
                allow, deny = self._subject_lists(value, is_queue_allowed=False)
                result.publish_allow, result.publish_deny = allow, deny
            elif name in ("sub", "subscribe", "export"):
                allow, deny = self._subject_lists(value, is_queue_allowed=True)
                result.subscribe_allow, result.subscribe_deny = allow, deny
            elif name in ("publish_allow_responses", "allow_responses"):
                self._responses(value, result)
            elif not value.is_used_variable:
                self._problems.errors.append(f'{value.place}: Unknown field "{key}" parsing permissions')
        if result.responses_max and result.publish_allow is None:
            # Being allowed to answer means that nothing else may be published unless it is listed.
            result.publish_allow = []
        return result

    def _responses(self, node: Node, result: PermissionOptions) -> None:
        if isinstance(node.value, bool):
            if node.value:
                result.responses_max, result.responses_expire_ns = 1, 2 * MINUTE_NS
            return
        if not isinstance(node.value, dict):
            raise wrong(node, "error parsing response permissions, expected a boolean or a map")
        result.responses_max, result.responses_expire_ns = 1, 2 * MINUTE_NS
        for key, value in node.value.items():
            name = key.lower()
            if name in ("max", "max_msgs", "max_messages", "max_responses"):
                result.responses_max = integer(value) or 1
            elif name in ("expires", "expiration", "ttl"):
                if not isinstance(value.value, str):
                    raise wrong(value, "error parsing expires, not a duration string")
                try:
                    result.responses_expire_ns = parse_duration(value.value) or 2 * MINUTE_NS
                except ValueError as error:
                    raise wrong(value, f"error parsing expires: {error}") from None
            elif not value.is_used_variable:
                self._problems.errors.append(f'{value.place}: Unknown field "{key}" parsing permissions')

    def _subject_lists(self, node: Node, *, is_queue_allowed: bool) -> tuple[list[str] | None, list[str]]:
        """The allow list (None: not given) and the deny list."""
        if not isinstance(node.value, dict):
            return _subjects(node, is_queue_allowed=is_queue_allowed), []
        allow: list[str] | None = None
        deny: list[str] = []
        for key, value in node.value.items():
            if key.lower() == "allow":
                allow = _subjects(value, is_queue_allowed=is_queue_allowed)
            elif key.lower() == "deny":
                deny = _subjects(value, is_queue_allowed=is_queue_allowed)
            elif not value.is_used_variable:
                self._problems.errors.append(
                    f'{value.place}: Unknown field name "{key}" parsing subject permissions, '
                    "only 'allow' or 'deny' are permitted"
                )
        return allow, deny


def _number_into(target: AccountJetStreamOptions, name: str) -> Callable[[Node], None]:
    return lambda node: setattr(target, name, integer(node))


def enabled_word(node: Node) -> bool:
    """The words that may stand for true and false in front of JetStream."""
    word = string(node)
    if word.lower() in ("enabled", "enable"):
        return True
    if word.lower() in ("disabled", "disable"):
        return False
    raise wrong(node, f"Expected 'enabled' or 'disabled' for string value, got '{word}'")


def _subjects(node: Node, *, is_queue_allowed: bool) -> list[str]:
    subjects = [node.value] if isinstance(node.value, str) else [string(item) for item in items(node, "subjects")]
    for text in subjects:
        words = text.split()
        expected = (1, 2) if is_queue_allowed else (1,)
        if len(words) not in expected or not all(_is_subject(word) for word in words):
            raise wrong(node, f'subject "{text}" is not a valid subject')
    return subjects


def _is_subject(text: str) -> bool:
    tokens = text.split(".")
    return all(tokens) and ">" not in tokens[:-1]
