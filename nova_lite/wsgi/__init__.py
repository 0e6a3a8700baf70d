"""The applications that uWSGI, gunicorn and the like serve: ``nova_lite.wsgi.compute`` and ``nova_lite.wsgi.metadata``.

Each is made when its module is loaded, so a mistake of the operator ends the server at its start.
"""
