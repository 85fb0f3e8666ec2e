"""Laws are tried without a stopwatch, since the machine may be busy, and alike in every run of CI."""

import os

from hypothesis import settings

settings.register_profile("anywhere", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "anywhere")
