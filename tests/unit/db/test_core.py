"""What databases say when something is wrong."""
import pytest
import sqlalchemy as sa

from nova_lite.db import core


def test_errors_do_not_tell_the_values_of_a_statement(tmp_path):
    engine = core.make_engine(f"sqlite:///{tmp_path}/db")
    with pytest.raises(sa.exc.OperationalError) as raised, engine.begin() as conn:
        conn.execute(sa.text("INSERT INTO nowhere VALUES (:secret)"), {"secret": "top-secret"})
    engine.dispose()
    assert "nowhere" in str(raised.value)
    assert "top-secret" not in str(raised.value)
