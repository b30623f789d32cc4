"""Which class an error answer of the JetStream API becomes: by err_code first, by code when the number is new.

ApiError (room api): code, err_code, description
├── NotFoundError            StreamNotFoundError, ConsumerNotFoundError, MessageNotFoundError
├── AlreadyExistsError       StreamExistsError, ConsumerExistsError
├── BadRequestError          SubjectOverlapError, …
├── WrongLastSequenceError, WrongLastMsgIdError
├── StreamFullError, UnavailableError, JetStreamDisabledError
└── anything else stays an ApiError
"""

from __future__ import annotations

from typing import Any, ClassVar

from jetspark.api.error_codes import ApiError
from jetspark.client.errors import JetStreamError, NoRespondersError

_BY_ERR_CODE: dict[int, type[KnownApiError]] = {}
_BY_CODE: dict[int, type[KnownApiError]] = {}


class KnownApiError(ApiError):
    """Base of the classes below; a number claimed twice is refused when the module loads."""

    err_codes: ClassVar[tuple[int, ...]] = ()
    any_of_code: ClassVar[int] = 0

    def __init_subclass__(cls) -> None:
        for err_code in cls.__dict__.get("err_codes", ()):
            if err_code in _BY_ERR_CODE:
                raise TypeError(f"err_code {err_code} has two classes")
            _BY_ERR_CODE[err_code] = cls
        if "any_of_code" in cls.__dict__:
            _BY_CODE[cls.any_of_code] = cls


class NotFoundError(KnownApiError):
    """It does not exist."""

    any_of_code = 404


class StreamNotFoundError(NotFoundError):
    """No such stream."""

    err_codes = (10059,)


class ConsumerNotFoundError(NotFoundError):
    """No such consumer."""

    err_codes = (10014, 10149)


class MessageNotFoundError(NotFoundError):
    """No such message."""

    err_codes = (10037, 10043)


class BadRequestError(KnownApiError):
    """The server does not accept the request."""

    any_of_code = 400


class AlreadyExistsError(BadRequestError):
    """The name exists already, with other settings."""


class StreamExistsError(AlreadyExistsError):
    """A stream of that name exists with other settings."""

    err_codes = (10058, 10130)


class ConsumerExistsError(AlreadyExistsError):
    """A consumer of that name exists with other settings, or is in use."""

    err_codes = (10013, 10148, 10105)


class SubjectOverlapError(BadRequestError):
    """Another stream already has the subject."""

    err_codes = (10065,)


class WrongLastSequenceError(BadRequestError):
    """The last sequence of the stream or subject is not the expected one: somebody else has published."""

    err_codes = (10071, 10164)


class WrongLastMsgIdError(BadRequestError):
    """The last message is not the expected one."""

    err_codes = (10070,)


class WrongStreamError(BadRequestError):
    """The subject belongs to another stream than expected."""

    err_codes = (10060,)


class StreamFullError(KnownApiError):
    """The stream has reached a limit and accepts no new messages."""

    err_codes = (10077,)


class UnavailableError(KnownApiError):
    """JetStream cannot answer at the moment."""

    any_of_code = 503


class JetStreamDisabledError(UnavailableError):
    """JetStream is not enabled for the account or the server."""

    err_codes = (10039, 10076)


class NoJetStreamError(JetStreamError, NoRespondersError):
    """Nobody answers the JetStream API: it is off, or the domain or prefix is wrong."""

    def __init__(self, subject: str) -> None:
        NoRespondersError.__init__(self, subject)


def api_error(document: dict[str, Any]) -> ApiError:
    """The exception for the `error` object of an answer."""
    plain = ApiError.from_document(document)
    known = _BY_ERR_CODE.get(plain.err_code) or _BY_CODE.get(plain.code)
    return plain if known is None else known(plain.code, plain.err_code, plain.description)
