"""PyMySQL without the seven MiB that it seldom needs."""
from __future__ import annotations

import importlib
import sys
from typing import Any


def load() -> None:
    """Import PyMySQL, but not cryptography with it: that is for a password of MySQL 8 that crosses a connection without TLS
    (``caching_sha2_password``, ``sha256_password``), and is loaded when the server asks for such a one."""
    if "pymysql" in sys.modules or "cryptography" in sys.modules:
        return
    sys.modules["cryptography"] = None  # type: ignore[assignment]  # PyMySQL takes it as not installed
    try:
        auth = importlib.import_module("pymysql._auth")
    finally:
        del sys.modules["cryptography"]

    def encrypt(*arguments: Any) -> bytes:
        importlib.reload(auth)      # its own function takes this one's place
        return auth.sha2_rsa_encrypt(*arguments)

    auth.sha2_rsa_encrypt = encrypt  # type: ignore[attr-defined]
