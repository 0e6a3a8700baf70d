"""Put an image into the embedded store as the old release does, and print its id. Run by the old interpreter, with the file of
options and a name."""
from __future__ import annotations

import sys

from nova_lite import conf as conf_module
from nova_lite.context import RequestContext
from nova_lite.image import base

_program, config, name = sys.argv
images = base.load(conf_module.load([], config_files=[config]))
context = RequestContext(user_id="admin", project_id="demo", roles=["admin"], is_admin=True, overwrite=False)
made = images.create(context, {"name": name, "visibility": "public", "disk_format": "raw", "properties": {}})
images.upload(context, made.id, iter([b"a disk"]))
print(made.id)
