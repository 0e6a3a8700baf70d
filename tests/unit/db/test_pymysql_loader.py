"""PyMySQL loads cryptography when a server asks for what needs it, and not before."""
from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from nova_lite.db.core import make_engine
make_engine("mysql+pymysql://nova:secret@127.0.0.1:3306/nova")
print("pymysql" in sys.modules, "cryptography" in sys.modules)
from pymysql import _auth
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
for _ in range(2):
    sent = _auth.sha2_rsa_encrypt(b"secret", b"\\0" * 20, public)
    print(key.decrypt(sent, padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)))
"""


def test_cryptography_comes_with_a_password_that_needs_it():
    out = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout.splitlines()
    assert out == ["True False", r"b'secret\x00'", r"b'secret\x00'"]
