"""What alembic runs: the connection and its transaction come from ``nova_lite.db.migration``."""
from alembic import context

from nova_lite.db import models

context.configure(connection=context.config.attributes["connection"], target_metadata=models.metadata, compare_type=True)
context.run_migrations()
