"""Settings of all tests: Hypothesis without time limits (machines differ) and without a database on disk."""

from hypothesis import settings

settings.register_profile("bilsh", deadline=None, database=None)
settings.load_profile("bilsh")
