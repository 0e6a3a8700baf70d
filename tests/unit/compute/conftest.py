"""The cloud in one process serves the tests of the compute daemon, too."""
from tests.unit.conductor.conftest import cloud, make_cloud

__all__ = ["cloud", "make_cloud"]
