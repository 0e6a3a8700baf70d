"""Headless Chromium, steered by its DevTools protocol: pages, keys, and the pixels of a canvas."""
from __future__ import annotations

import base64
import itertools
import json
import pathlib
import shutil
from typing import Any

import requests

from tests.support.process import Process, wait_for
from tests.support.websocket import WebSocket

CHROMIUM = shutil.which("chromium")
_NAMES = {"\n": ("Enter", "Enter", 13), " ": (" ", "Space", 32), "/": ("/", "Slash", 191), "=": ("=", "Equal", 187)}


class Browser:
    """One page. ``with Browser(directory) as page``."""

    def __init__(self, directory: pathlib.Path) -> None:
        assert CHROMIUM is not None
        self._profile = directory / "profile"
        self._process = Process("chromium", [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0",
            "--remote-allow-origins=*", "--window-size=900,700", "--no-first-run", "--no-proxy-server",
            f"--user-data-dir={self._profile}", "about:blank"], directory).start()
        self._ids = itertools.count(1)
        told = self._profile / "DevToolsActivePort"
        wait_for("Chromium", lambda: told.exists() and told.read_text().count("\n"), 90)
        port = told.read_text().splitlines()[0]
        session = requests.Session()
        session.trust_env = False
        pages = wait_for("a page", lambda: [p for p in session.get(f"http://127.0.0.1:{port}/json", timeout=30).json()
                                            if p["type"] == "page"], 60)
        self._socket = WebSocket(pages[0]["webSocketDebuggerUrl"])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command; its result."""
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            data = self._socket.receive()
            assert data is not None, "Chromium has gone"
            answer = json.loads(data)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, url: str) -> None:
        """Go to a page."""
        self.call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """The value of a script in the page."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def screenshot(self, path: pathlib.Path) -> None:
        """A picture (PNG) of the page."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def type(self, text: str) -> None:
        """Press the keys of a text of letters, digits, spaces, slashes, equal signs and line ends."""
        for letter in text:
            key, code, number = _NAMES.get(letter, (
                letter, f"Digit{letter}" if letter.isdigit() else f"Key{letter.upper()}", ord(letter.upper())))
            if letter.isupper():
                self._key("rawKeyDown", "Shift", "ShiftLeft", 16)
            self._key("keyDown", key, code, number, text="\r" if letter == "\n" else letter)
            self._key("keyUp", key, code, number)
            if letter.isupper():
                self._key("keyUp", "Shift", "ShiftLeft", 16)

    def _key(self, kind: str, key: str, code: str, number: int, **more: str) -> None:
        self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code, windowsVirtualKeyCode=number, **more)

    def canvas(self) -> tuple[int, int, bytes]:
        """Width, height and RGB bytes of the page's canvas; (0, 0, b"") without one."""
        found = self.evaluate("""(() => {
            const canvas = document.querySelector('canvas');
            if (!canvas || !canvas.width) return null;
            const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            let text = '';
            for (let i = 0; i < data.length; i += 4) text += String.fromCharCode(data[i], data[i + 1], data[i + 2]);
            return [canvas.width, canvas.height, btoa(text)];
        })()""")
        return (found[0], found[1], base64.b64decode(found[2])) if found else (0, 0, b"")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()
        self._process.kill()
