"""What holds for every test: generated examples are the same in every run, and no example is judged by its duration."""

import os
import signal

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None)
# HYPOTHESIS_PROFILE=explore looks for new examples; a failure it finds becomes a test of its own.
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# A run started in the background by a shell inherits a SIGINT that is ignored; the tests of Ctrl-C, and the programs
# they start, need the usual one.
signal.signal(signal.SIGINT, signal.default_int_handler)
