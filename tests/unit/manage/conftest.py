"""The fake hosts of the conductor's tests, for the commands that work on a running cloud."""
from tests.unit.conductor.conftest import make_cloud  # noqa: F401  a fixture
