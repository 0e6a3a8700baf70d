from tests.unit.conductor.conftest import make_cloud  # noqa: F401
