"""Every error of nova_lite, a file per kind of HTTP status: ``exception.InstanceNotFound`` and so on."""
from nova_lite.exception import bad_request, base, conflict, forbidden, not_found, server_side
from nova_lite.exception.bad_request import *  # noqa: F403
from nova_lite.exception.base import *  # noqa: F403
from nova_lite.exception.conflict import *  # noqa: F403
from nova_lite.exception.forbidden import *  # noqa: F403
from nova_lite.exception.interrupted import *  # noqa: F403
from nova_lite.exception.not_found import *  # noqa: F403
from nova_lite.exception.server_side import *  # noqa: F403

# modules whose errors keep their type in messages
MODULES = [m.__name__ for m in (base, bad_request, forbidden, not_found, conflict, server_side)]
