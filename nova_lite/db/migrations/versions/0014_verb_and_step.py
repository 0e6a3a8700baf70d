"""Verb and step of an action are columns. Before they were among its arguments, where they stay for one release: what runs
during ``db sync`` is of the release before, and goes on to read and to write them there."""
import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

ACTIONS = sa.table("instance_actions", sa.column("arguments", sa.JSON(none_as_null=True)), sa.column("verb", sa.String(64)),
                   sa.column("step", sa.String(32)))


def upgrade() -> None:
    """What is missing: a killed run may have made one of the columns, or both without what goes into them."""
    there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("instance_actions")}
    for column in (sa.Column("verb", sa.String(64)), sa.Column("step", sa.String(32))):
        if column.name not in there:
            op.add_column("instance_actions", column)
    verb, step, undo, at_source = (ACTIONS.c.arguments[name].as_string() for name in ("verb", "step", "undo", "at_source"))
    op.execute(sa.update(ACTIONS).where(ACTIONS.c.verb.is_(None)).values(
        verb=verb, step=sa.case((step.is_not(None), step), (undo.is_not(None), "undo"), (at_source.is_not(None), "return"))))
