"""What can go wrong with a pipeline project or a pipeline, in words for the person who runs it."""

from __future__ import annotations

from jetspark.errors import JetsparkError


class PipelineError(JetsparkError):
    """Something is wrong with a pipeline, and you can correct it; the text says how."""
