"""What the documents tell operators to type is there."""
import pathlib
import re

import pytest

from nova_lite import manage

ROOT = pathlib.Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["README.md", "docs/operators.md", "docs/compute_hosts.md"])
def test_commands_of_the_documents_exist(name):
    named = set(re.findall(r"nova-lite-manage (\w+) ([\w-]+)", (ROOT / name).read_text()))
    assert named
    assert named <= {(command.area, command.name) for command in manage.COMMANDS}


def test_each_area_says_what_it_is():
    assert {command.area for command in manage.COMMANDS} == set(manage.AREAS)
