"""Errors that cross a message bus."""
import inspect
import sys

import pytest
from oslo_messaging._drivers import common

from nova_lite import exception

ERRORS = [kind for _, kind in inspect.getmembers(exception, inspect.isclass) if issubclass(kind, exception.NovaLiteError)]


class Anything(dict):
    def __missing__(self, key):
        return 1


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_comes_out_of_a_message_as_what_it_was(kind):
    try:
        raise kind(kind.msg_fmt % Anything())
    except exception.NovaLiteError:
        sent = common.serialize_remote_exception(sys.exc_info())
    received = common.deserialize_remote_exception(sent, exception.MODULES)
    assert isinstance(received, kind)
    assert (received.code, received.message.splitlines()[0]) == (kind.code, (kind.msg_fmt % Anything()).splitlines()[0])
