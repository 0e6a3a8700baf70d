"""Selects the application for a path. Keys of the paste section are paths: ``/v2.1`` is the path itself (with or without a
final slash), ``/v2.1/+`` everything below it, ``/`` all that no other key matches, and any other ``/name`` the path and
everything below it.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

Application = Callable[..., Any]


class URLMap:
    """Moves the path of an application from PATH_INFO to SCRIPT_NAME, as WSGI asks for, and calls it."""

    def __init__(self, default: Application) -> None:
        self.default = default
        self._here: dict[str, Application] = {}
        self._below: dict[str, Application] = {}

    def add(self, path: str, app: Application) -> None:
        """``path`` is a key of the paste section."""
        if path.endswith("/+"):
            self._below[path[:-2]] = app
        else:
            self._here[path.rstrip("/")] = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        path = environ.get("PATH_INFO", "")
        word, _, rest = path[1:].partition("/")
        prefix = "/" + word
        app = self._below.get(prefix) if rest.strip("/") else self._here.get(prefix)
        if app is None and rest.strip("/"):
            app = self._here.get(prefix)
        if app is None:
            return self.default(environ, start_response)
        environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + prefix
        environ["PATH_INFO"] = path[len(prefix):]
        return app(environ, start_response)


def factory(loader: Any, global_conf: dict[str, str], **paths: str) -> URLMap:
    """Paste composite factory. An application that its own factory leaves out (None) gives its path back to ``/``."""
    made = {path: loader.get_app(name, global_conf=global_conf) for path, name in paths.items() if path.startswith("/")}
    urlmap = URLMap(made.pop("/"))
    for path, app in made.items():
        if app is not None:
            urlmap.add(path, app)
    return urlmap
