"""docs/operations.md says what the table of verbs says."""
from __future__ import annotations

from pathlib import Path

import pytest

from nova_lite.operations import VERBS, document

DOCS = Path(__file__).parents[3] / "docs"
TEMPLATE = (DOCS / "operations.md.in").read_text(encoding="utf-8")


def test_the_document_is_what_make_docs_writes():
    assert (DOCS / "operations.md").read_text(encoding="utf-8") == document.text(TEMPLATE), "run: make docs"


@pytest.mark.parametrize("verb", VERBS.values(), ids=lambda verb: verb.name)
def test_each_verb_has_its_states_in_a_table_and_in_a_diagram(verb):
    """What changes no state has no diagram."""
    written = document.text(TEMPLATE)
    assert f"| {verb.name} | `{verb.request}` |" in written
    for state in verb.working:
        assert f"--> {state.replace('-', '_')}" in written


def test_a_verb_that_the_template_forgets_is_named():
    with pytest.raises(ValueError, match="no table has unshelve$"):
        document.text(TEMPLATE.replace("shelveOffload unshelve}}", "shelveOffload}}"))


def test_a_verb_that_there_is_not_is_named():
    with pytest.raises(KeyError, match="levitate"):
        document.text(TEMPLATE + "\n{{table: levitate}}\n")


def test_edges_with_the_same_ends_are_one():
    assert document.text(TEMPLATE + "\n{{diagram: delete force_delete}}\n").endswith('''```mermaid
stateDiagram-v2
    [*] --> deleting: delete, force_delete
    deleting --> deleted: success
    deleting --> error: failure
```
''')
