"""Barbican's API for uWSGI: the module of its own reads /etc/barbican only."""
import os

from paste import deploy

application = deploy.loadapp(f"config:{os.environ['STACK_BARBICAN_PASTE']}")
