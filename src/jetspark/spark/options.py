"""Options: a declared table, read once on the driver, with an error that helps for each one that is wrong.

Declared here: how an option is described, how a set of them is read, and the options of the connection, which source
and sink share. The source's own are in `source_options`, the sink's in `sink_options`. Names are compared without case,
because Spark does, and may carry the prefix `nats.`. Secrets are never shown: not in a repr, not in an error. Spark
itself hides options whose name says password, token or secret, which is why these are spelled as they are.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jetspark.client.core.server_pool import parse_address
from jetspark.client.errors import BadOptionError
from jetspark.protocol.subjects import is_literal, is_valid_subject
from jetspark.spark import option_values as kinds
from jetspark.spark.option_habits import called_here
from jetspark.spark.option_values import Kind

READ = "read"
WRITE = "write"
BOTH = (READ, WRITE)

# Spark adds these to what the user gave; they are no mistake of the user's.
SPARKS_OWN = ("queryname", "checkpointlocation", "provider", "location", "owner", "is_managed_location")
# What stands in load(...), save(...) or start(...), and several of them as JSON.
PATH, PATHS = "path", "paths"
# With these a path is where Spark keeps a table, which it does not ask the user for.
OF_TABLES = ("provider", "location", "is_managed_location")
# CREATE TABLE repeats every option with this in front.
TABLE_PREFIX = "option."
PREFIX = "nats."
HIDDEN = "***"


@dataclass(frozen=True)
class Option:
    """One option: its name as documented, what it takes, what it is when absent, and who it is for."""

    name: str
    kind: Kind
    default: Any
    doc: str
    sides: tuple[str, ...] = BOTH
    is_secret: bool = False
    also: tuple[str, ...] = ()
    """Other spellings."""

    @property
    def key(self) -> str:
        """The name as it is compared."""
        return self.name.lower()


CONNECTION_OPTIONS: tuple[Option, ...] = (
    Option("servers", kinds.NAMES, None, "The URLs of the servers, with commas between them. Required.", also=("url",)),
    Option("user", kinds.TEXT, "", "User name."),
    Option("password", kinds.SECRET_TEXT, "", "The user's password.", is_secret=True),
    Option("token", kinds.SECRET_TEXT, "", "A token instead of user and password.", is_secret=True),
    Option(
        "credentialsFile",
        kinds.FILE,
        "",
        "A credentials file (JWT and seed), at this path on every node.",
        also=("creds", "credentials", "credential.file"),
    ),
    Option("nkeySeedFile", kinds.FILE, "", "A file with an nkey seed, at this path on every node.", also=("nkey",)),
    Option("nkeySecret", kinds.SECRET_TEXT, "", "The nkey seed itself.", is_secret=True),
    Option("jwtToken", kinds.SECRET_TEXT, "", "A user JWT; with nkeySecret or as a bearer token.", is_secret=True),
    Option("tls", kinds.FLAG, None, "Require TLS. Any other tls option does so too.", also=("tls.enabled",)),
    Option("tls.caFile", kinds.TEXT, "", "Certificates to trust instead of the system's.", also=("tls.ca",)),
    Option("tls.certFile", kinds.TEXT, "", "The client's own certificate.", also=("tls.cert",)),
    Option("tls.keyFile", kinds.TEXT, "", "The key of the client's certificate.", also=("tls.key",)),
    Option("tls.keyPassword", kinds.SECRET_TEXT, "", "The password of that key.", is_secret=True),
    Option("tls.hostname", kinds.TEXT, "", "The name the server's certificate must have."),
    Option("tls.first", kinds.FLAG, False, "Start TLS before the server's greeting."),
    Option("domain", kinds.TEXT, "", "The JetStream domain.", also=("js.domain",)),
    Option("apiPrefix", kinds.TEXT, "", "The subjects of the JetStream API, instead of $JS.API.", also=("js.prefix",)),
    Option("inboxPrefix", kinds.TEXT, "_INBOX", "The prefix of the subjects for answers."),
    Option("connectTimeoutMs", kinds.TIMEOUT, 5.0, "The longest wait for a server to accept a connection."),
    Option("requestTimeoutMs", kinds.TIMEOUT, 10.0, "The longest wait for an answer of the server."),
    Option(
        "numRetries",
        kinds.whole_number(0),
        5,
        "How often a failed connection or request is tried again before the query or task fails.",
        also=("fetchOffset.numRetries",),
    ),
    Option(
        "retryIntervalMs",
        kinds.MILLISECONDS,
        0.5,
        "The wait before the first retry; it doubles with each, up to ten seconds.",
        also=("fetchOffset.retryIntervalMs",),
    ),
    Option("reconnectTimeoutMs", kinds.MILLISECONDS, 60.0, "How long to try to restore a lost connection."),
    Option("idleConnectionMs", kinds.MILLISECONDS, 60.0, "A worker closes a connection unused for this long."),
)  # fmt: skip

# Each of them asks for TLS.
TLS_OPTIONS = ("tls.caFile", "tls.certFile", "tls.keyFile", "tls.keyPassword", "tls.hostname", "tls.first")


class Options:
    """Options that were read and checked. `options["maxOffsetsPerTrigger"]` is a value, never text; it pickles."""

    def __init__(self, values: dict[str, Any], given: frozenset[str], secrets: frozenset[str]) -> None:
        self._values = values
        self._given = given
        self._secrets = secrets

    def __getitem__(self, name: str) -> Any:
        return self._values[name.lower()]

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def is_given(self, name: str) -> bool:
        """Did the user say something about it?"""
        return name.lower() in self._given

    def items(self) -> Iterable[tuple[str, Any]]:
        """Every option and its value, secrets included."""
        return self._values.items()

    def with_values(self, **values: Any) -> Options:
        """The same with other values."""
        lower = {name.lower(): value for name, value in values.items()}
        return Options({**self._values, **lower}, self._given | frozenset(lower), self._secrets)

    def __repr__(self) -> str:
        shown = {name: HIDDEN if name in self._secrets else self._values[name] for name in sorted(self._given)}
        return f"Options({shown})"


def read_options(raw: Mapping[str, str], declared: Sequence[Option], side: str) -> Options:
    """Read the user's options; BadOptionError names the option, what it takes and what it may have been meant to be."""
    spellings = {text.lower(): option for option in declared for text in (option.name, *option.also)}
    values = {option.key: option.default for option in declared}
    given: dict[str, str] = {}
    named = ""
    for spelled, text in raw.items():
        key = spelled.lower()
        if key in (PATH, PATHS):
            named = text if key == PATH else _joined(text)
            continue
        if (key in SPARKS_OWN and key not in spellings) or key.startswith(TABLE_PREFIX):
            continue
        option = spellings.get(key) or spellings.get(key.removeprefix(PREFIX))
        if option is None:
            raise unknown_option(spelled, [one for one in declared if side in one.sides])
        if side not in option.sides:
            raise BadOptionError(f"option {option.name} is for {option.sides[0]}, this is a {side}: take it out")
        if option.key in given and given[option.key] != key:
            raise BadOptionError(f"option {option.name} is given twice, as {given[option.key]} and as {spelled}")
        given[option.key] = key
        values[option.key] = read_value(option, text)
    if named and not any(spelled.lower() in OF_TABLES for spelled in raw):
        _take_path(named, spellings["stream"], side, values, given)
    secrets = frozenset(option.key for option in declared if option.is_secret)
    options = Options(values, frozenset(given), secrets)
    check_connection_options(options)
    return options


def _joined(paths: str) -> str:
    try:
        return ",".join(json.loads(paths))
    except (ValueError, TypeError):
        raise BadOptionError("option paths is Spark's own, for load with several names: use option stream") from None


def _take_path(named: str, option: Option, side: str, values: dict[str, Any], given: dict[str, str]) -> None:
    """What is loaded or saved by name is a stream: another way to say option stream, and not another stream."""
    value = read_value(option, named)
    if option.key in given and values[option.key] != value:
        asked = values[option.key] if isinstance(values[option.key], str) else ", ".join(values[option.key])
        where = "load" if side == READ else "save or start"
        raise BadOptionError(f"{where} names {named} and option stream {asked}: give one of them")
    values[option.key] = value
    given[option.key] = PATH


def read_value(option: Option, text: str) -> Any:
    """One option's value; BadOptionError when it takes something else. A secret's text is not repeated."""
    try:
        return option.kind.read(text)
    except ValueError as error:
        said = "" if option.is_secret else f", not {kinds.shortened(text)!r}"
        if isinstance(error, kinds.SecretInPlaceError):
            said = f": {error}"
        raise BadOptionError(f"option {option.name} takes {option.kind.takes}{said}") from None


def unknown_option(spelled: str, declared: Sequence[Option]) -> BadOptionError:
    """The error for an option nobody declared, with the nearest names."""
    names = {text.lower(): option.name for option in declared for text in (option.name, *option.also)}
    plain = spelled.lower().removeprefix(PREFIX)
    near = difflib.get_close_matches(plain, list(names), n=2, cutoff=0.5)
    nearest = list(dict.fromkeys(names[one] for one in near))
    own = called_here(plain, {option.name for option in declared})
    if own:
        described = next(option for option in declared if option.name == own)
        hint = f"here it is {own}, which takes {described.kind.takes}"
    elif nearest:
        described = next(option for option in declared if option.name == nearest[0])
        hint = f"did you mean {' or '.join(nearest)}? {nearest[0]} takes {described.kind.takes}"
    else:
        hint = "known are " + ", ".join(sorted(option.name for option in declared))
    return BadOptionError(f"unknown option {spelled}: {hint}")


def check_connection_options(options: Options) -> None:
    """What the connection options must be together."""
    servers = options["servers"]
    if not servers:
        raise BadOptionError(
            'option servers is missing: give the servers\' URLs, as in .option("servers", "nats://127.0.0.1:4222")'
            " (a table made with CREATE TABLE ... USING forgets its options: repeat them where it is read)"
        )
    for url in servers:
        if "@" in url:
            # A URL is shown in plans and logs; only options named as secrets are hidden there.
            raise BadOptionError("option servers holds credentials: give them as options user and password, or token")
        try:
            parse_address(url)
        except BadOptionError as error:
            raise BadOptionError(f"option servers: {error}") from None
    _check_credentials(options)
    _check_tls(options)
    if options["domain"] and options["apiPrefix"]:
        raise BadOptionError("give option domain or option apiPrefix, not both")
    for name in ("domain", "apiPrefix", "inboxPrefix"):
        subject = options[name].encode()
        if subject and not (is_valid_subject(subject) and is_literal(subject)):
            raise BadOptionError(f"option {name}: {options[name]!r} cannot be part of a subject")


def _check_credentials(options: Options) -> None:
    kinds_given = [
        bool(options["user"] or options["password"]),
        bool(options["token"]),
        bool(options["credentialsFile"]),
        bool(options["nkeySeedFile"] or options["nkeySecret"] or options["jwtToken"]),
    ]
    if sum(kinds_given) > 1:
        raise BadOptionError("give one kind of credentials: user and password, token, credentialsFile, or an nkey")
    if options["password"] and not options["user"]:
        raise BadOptionError("option password needs option user (a password without a user is option token)")
    if options["nkeySeedFile"] and options["nkeySecret"]:
        raise BadOptionError("give option nkeySeedFile or option nkeySecret, not both")


def _check_tls(options: Options) -> None:
    if options["tls"] is False and any(options[name] for name in TLS_OPTIONS):
        raise BadOptionError("option tls is false, but other tls options are given: take them out, or tls")
    for name in ("tls.keyFile", "tls.keyPassword"):
        if options[name] and not options["tls.certFile"]:
            raise BadOptionError(f"option {name} needs option tls.certFile, the certificate it belongs to")
