"""One request to the JetStream API, and how it is answered.

Decided here: that an answer leaves now or waits for the commit, what is counted, and who is told by an audit advisory.
What the answer says is decided by the endpoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetspark.api import advisories, responses
from jetspark.api.api_subjects import ADVISORY_PREFIX
from jetspark.api.error_codes import ApiError
from jetspark.broker import advisories as announcements
from jetspark.broker.info import client_document

if TYPE_CHECKING:
    from jetspark.broker.account import Account
    from jetspark.broker.broker import Broker
    from jetspark.broker.jetstream import JetStream
    from jetspark.broker.session import Session
    from jetspark.broker.stream import Stream


class ApiCall:
    """One request, from its arrival to its answer."""

    def __init__(
        self, jetstream: JetStream, session: Session, subject: str, reply: bytes, header: bytes, body: bytes
    ) -> None:
        self.jetstream = jetstream
        self.session = session
        self.broker: Broker = jetstream.broker
        self.account: Account = jetstream.account
        self.subject = subject
        self.reply = reply
        self.header = header
        self.body = body
        # The type of the answer, known once the endpoint is.
        self.response_type: str = ""
        # As nats-server has it: a reset is neither counted nor audited, and a message that is not there no error.
        self.is_counted: bool = True
        self.is_error_counted: bool = True

    def is_strict(self) -> bool:
        return self.broker.options.strict

    # -- answers -----------------------------------------------------------------------------------------------------

    def answer(self, document: dict[str, Any]) -> None:
        """Nothing durable depends on this answer: it leaves at once."""
        self._finish(document, False)

    def answer_durable(self, document: dict[str, Any]) -> None:
        """What this answer reports must be on disk before it leaves."""
        self._finish(document, True)

    def answer_about(self, stream: Stream, document: dict[str, Any]) -> None:
        """The answer to a change of this stream or its consumers: durable where the stream is."""
        self._finish(document, not stream.in_memory)

    def answer_reading(self, stream: Stream, document: dict[str, Any]) -> None:
        """The answer shows the stream's content: what it shows must not be lost any more."""
        self._finish(document, not stream.in_memory and stream.store.last_seq > stream.store.visible_seq)

    def fail(self, error: ApiError) -> None:
        """An error changed nothing, so it leaves at once."""
        if self.is_counted and self.is_error_counted:
            self.jetstream.api_errors += 1
            self.broker.api_errors += 1
        self._finish(responses.error(self.response_type, error), False)

    def _finish(self, document: dict[str, Any], held: bool) -> None:
        body = responses.encode_json(document)
        self.send(body, held)
        if not self.is_counted:
            return
        self.jetstream.api_total += 1
        self.broker.api_total += 1
        if announcements.is_heard(self.account, f"{ADVISORY_PREFIX}.API"):
            self._audit(body)

    def answer_uncounted(self, document: dict[str, Any], held: bool) -> None:
        """Message reads are too many to be counted or audited."""
        self.send(responses.encode_json(document), held)

    def send(self, body: bytes, held: bool) -> None:
        if not self.reply:
            return
        if held:
            self.account.hold_reply(self.reply, 0, body)
        else:
            self.account.publish_internal(self.reply, b"", 0, body)

    def _audit(self, response: bytes) -> None:
        event = advisories.api_audit(
            announcements.stamp(self.account),
            server=self.broker.options.server_name,
            client=client_document(self.session),
            subject=self.subject,
            request=self.body.decode("utf-8", "replace"),
            response=response.decode(),
        )
        announcements.announce(self.account, event)
