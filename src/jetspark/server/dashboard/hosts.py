"""Under which names the dashboard answers somebody who proves nothing.

Decided here: the guard against DNS rebinding. A page of another site may point its own name at this machine, and for
the browser everything here then belongs to that page: it could read what is stored, and the token that changes need.
What it cannot do is ask under a name that is not its own. So a request without credentials is answered only under names
that no stranger can own: an address, `localhost`, a name without a dot (no zone of the internet hands those out), the
names this server was given, and those the operator lists. Not known here: nats-server's own documents (`/varz`,
`/metrics`, …), which answer under any name, as they do there.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection


def host_of(authority: str) -> str:
    """The name or address of a Host header or of the same part of a URL: no port, small letters, no root's dot."""
    host = authority.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].removesuffix(".")


def is_own(host: str, names: Collection[str]) -> bool:
    """Is this a name that no stranger can own? `names` are those the operator chose, in small letters."""
    if "." not in host and ":" not in host:
        # Also the empty one: browsers always send a name.
        return True
    if host in names or host.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def machine_name() -> str:
    return socket.gethostname().lower()


def refusal(host: str) -> str:
    return (
        f"This dashboard does not answer to the name {host!r}, so that pages of other sites cannot read it. Open it by "
        f'address or as localhost, or allow the name: dashboard {{ hosts: ["{host}"] }} in the configuration file, '
        f"--dashboard_hosts {host} on the command line."
    )
