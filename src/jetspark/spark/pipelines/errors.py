"""What can go wrong with a pipeline project or a pipeline, in words for the person who runs it."""

from __future__ import annotations

from jetspark.errors import JetsparkError


class PipelineError(JetsparkError):
    """Something about a pipeline that its owner can put right; the text says what."""
