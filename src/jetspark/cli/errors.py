"""How a command fails: one line that names what was wrong, one that says what to do next, and an exit code for scripts.

Decided here: which exit code each kind of error gets. What the message says about a particular server (which streams
it has, say) is put together in `explain`, where a connection is at hand.
"""

from __future__ import annotations

import os
from typing import IO, Any, Final

import click

from jetspark.errors import JetsparkError

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NO_CONNECTION: Final = 3
NOT_FOUND: Final = 4
TIMED_OUT: Final = 5
INTERRUPTED: Final = 130

EXIT_CODES: Final = {
    OK: "done",
    FAILED: "refused by the server, or failed",
    USAGE: "a wrong or missing argument, or one that would have been asked for at a terminal",
    NO_CONNECTION: "no connection: nobody answers, or the credentials or certificates are refused",
    NOT_FOUND: "no such stream, consumer, message, bucket, key, object, context, or nobody listens on the subject",
    TIMED_OUT: "no answer, or no message, in time",
    INTERRUPTED: "interrupted from the keyboard",
}


class CliError(click.ClickException):
    """A command that ends here. `hint` is the line that says what to do next."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it on the class and reads the instance's

    def show(self, file: IO[Any] | None = None) -> None:
        """On stderr, in the form `nats` uses."""
        head = click.style("jetspark: error: ", fg="red", bold=True)
        click.echo(head + self.format_message(), file=file, err=True, color=self.show_color)
        if self.hint:
            click.echo(self.hint, file=file, err=True)


class UsageError(CliError):
    """What was typed cannot be meant."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, exit_code=USAGE)


class NotFound(CliError):
    """The thing named is not there."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, exit_code=NOT_FOUND)


def exit_code_of(error: BaseException) -> int:
    """The exit code of an error the client raised, or of one that ends a command."""
    if isinstance(error, CliError):
        return error.exit_code
    # Loaded here: a command that needs no client starts without it.
    from jetspark.client.api_errors import NoJetStreamError, NotFoundError
    from jetspark.client.errors import BadOptionError, ConnectionFailure, NoRespondersError

    if isinstance(error, NoJetStreamError):
        return FAILED
    if isinstance(error, ConnectionFailure):
        return NO_CONNECTION
    if isinstance(error, (NotFoundError, NoRespondersError, KeyError)):
        return NOT_FOUND
    if isinstance(error, TimeoutError):
        return TIMED_OUT
    if isinstance(error, (BadOptionError, ValueError)):
        return USAGE
    return FAILED


def failure(error: JetsparkError | OSError, *, hint: str = "") -> CliError:
    """An error of the client or the system as the end of a command."""
    from jetspark.api.error_codes import ApiError

    text = str(error) or type(error).__name__
    if isinstance(error, ApiError):
        text = f"{error.description} ({error.err_code})"
    if isinstance(error, OSError) and not isinstance(error, JetsparkError):
        if error.filename and error.strerror:
            text = f"{os.fspath(error.filename2 or error.filename)}: {error.strerror}"
        return CliError(text, hint=hint)
    return CliError(text, hint=hint, exit_code=exit_code_of(error))
