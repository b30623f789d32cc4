"""What holds for every test: generated examples are the same in every run, and no example is judged by its duration."""

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None)
# HYPOTHESIS_PROFILE=explore looks for new examples; a failure it finds becomes a test of its own.
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
