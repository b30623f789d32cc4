"""Priority group names.

Decided here: which names are allowed. Used by consumer configurations and by the unpin request.
"""

from __future__ import annotations

import re
from typing import Final

_GROUP_NAME: Final = re.compile(r"[a-zA-Z0-9/_=-]{1,16}", re.ASCII)


def is_valid_group_name(name: str) -> bool:
    """Whether a priority group may be called that: 1 to 16 letters, digits, `/`, `_`, `=` and `-`."""
    return _GROUP_NAME.fullmatch(name) is not None
