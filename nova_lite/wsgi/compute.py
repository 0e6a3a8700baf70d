"""The compute API for other servers than our own."""
from nova_lite.api.wsgi import COMPUTE, application_of

application = application_of(COMPUTE)
