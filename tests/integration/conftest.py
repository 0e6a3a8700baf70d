"""Fixtures of the integration tests."""
from tests.support.neighbours import neighbours  # noqa: F401
