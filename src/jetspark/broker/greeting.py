"""What a client is told about the server and about itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jetspark.broker.options import API_LEVEL, VERSION
from jetspark.broker.system import server_document

if TYPE_CHECKING:
    from jetspark.broker.broker import Broker
    from jetspark.broker.session import Session


def info_document(broker: Broker, session: Session) -> dict[str, Any]:
    """What INFO tells a client about this server and itself."""
    options = broker.options
    document: dict[str, Any] = {
        "server_id": options.server_id,
        "server_name": options.server_name,
        "version": VERSION,
        "proto": 1,
        "git_commit": options.build,
        "go": "python",
        "host": options.host,
        "port": options.port,
        "headers": True,
        "max_payload": options.max_payload,
    }
    if options.jetstream:
        document["jetstream"] = True
    document["client_id"] = session.session_id
    document["client_ip"] = session.host
    if broker.gate.required():
        document["auth_required"] = True
    if session.nonce:
        document["nonce"] = session.nonce
    if options.domain:
        document["domain"] = options.domain
    document["api_lvl"] = API_LEVEL
    document.update(options.info_extra)
    return document


def user_info(broker: Broker, session: Session) -> bytes:
    """The answer to `$SYS.REQ.USER.INFO`."""
    document = {
        "server": server_document(broker),
        "data": {
            "user": session.user_name,
            "account": session.account.name,
            "account_name": session.account.name,
        },
    }
    return json.dumps(document, separators=(",", ":")).encode()
