"""The metadata service for other servers than our own."""
from nova_lite.api.wsgi import METADATA, application_of

application = application_of(METADATA)
