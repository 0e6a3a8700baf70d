"""How tests are given to several workers (``-n 2 --dist loadgroup --no-loadscope-reorder``)."""
from __future__ import annotations

import pytest

# who has one of these names boots real guests, which take all the power that a small machine has
_GUESTS = {"tiny_image", "LibvirtHost"}


def _with_guests(item: pytest.Item) -> bool:
    return bool(_GUESTS & set(vars(getattr(item, "module", object)))) or "two_hosts" in getattr(item, "fixturenames", ())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Two long groups go first, one for each worker; the files of the rest go to whoever is done."""
    if config.getoption("dist", "no") != "loadgroup":
        return
    guests = {item.path for item in items if _with_guests(item)}
    # tests of one file share what its fixtures start
    groups = {item: "guests" if item.path in guests else item.path.stem for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    first = ("guests", "test_neighbour_faults")
    items.sort(key=lambda item: first.index(groups[item]) if groups[item] in first else len(first))
