import pytest

from tests.unit.scheduler import hosts as support


@pytest.fixture(params=support.URLS, ids=lambda url: url.partition(":")[0])
def cloud(request, tmp_path):
    """A database without hosts; ``add`` makes one."""
    made = support.Hosts(request.param, tmp_path)
    yield made
    made.close()
