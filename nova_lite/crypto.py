"""Key pairs of users: fingerprints of imported keys, and generated pairs."""
from __future__ import annotations

import base64
import binascii
import datetime
import hashlib
import struct

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from nova_lite import exception, units

BITS = 2048
COMMENT = "Generated-by-Nova"
DAYS = 3650
_UPN = ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")     # the principal name that Windows logs in by a certificate


def _colons(digest: bytes) -> str:
    return digest.hex(":")


def ssh_fingerprint(public_key: str) -> str:
    """MD5 of an OpenSSH public key, in pairs with colons; raises InvalidKeypair for what is no such key."""
    try:
        kind, text = public_key.split()[:2]
        blob = base64.b64decode(text.encode("ascii"), validate=True)
        size = struct.unpack(">I", blob[:4])[0]
        if blob[4:4 + size] != kind.encode("ascii"):
            raise ValueError("the key is not of the type that it names")
        if not kind.startswith("sk-"):      # keys that live in a token: not for cryptography to read
            serialization.load_ssh_public_key(f"{kind} {text}".encode("ascii"))
    except (ValueError, binascii.Error, struct.error, UnsupportedAlgorithm, UnicodeEncodeError):
        raise exception.InvalidKeypair(reason="failed to generate fingerprint") from None
    return _colons(hashlib.md5(blob, usedforsecurity=False).digest())


def x509_fingerprint(certificate: str) -> str:
    """SHA1 of a certificate (PEM), in pairs with colons; raises InvalidKeypair for what is none."""
    try:
        loaded = x509.load_pem_x509_certificate(certificate.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        reason = f"failed to generate X509 fingerprint. Error message: {error}"
        raise exception.InvalidKeypair(reason=reason) from None
    return _colons(loaded.fingerprint(hashes.SHA1()))  # noqa: S303  a name for the key, no protection


def _private_pem(key: rsa.RSAPrivateKey, form: serialization.PrivateFormat) -> str:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def make_ssh_pair() -> tuple[str, str, str]:
    """(private key, public key, fingerprint) of a new RSA key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
    line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    public = f"{line} {COMMENT}\n"
    return _private_pem(key, serialization.PrivateFormat.TraditionalOpenSSL), public, ssh_fingerprint(public)


def make_x509_pair(user_id: str) -> tuple[str, str, str]:
    """(private key, certificate, fingerprint): a self-signed client certificate that names the user."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user_id[:64])])
    principal = f"{user_id}@localhost".encode()[:120]
    now = units.utcnow()
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        # 0x0c is the tag of a DER UTF8String; the length fits in one byte
        .add_extension(x509.SubjectAlternativeName([
            x509.OtherName(_UPN, bytes([0x0C, len(principal)]) + principal)]), critical=False)
        .sign(key, hashes.SHA256()))
    public = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return _private_pem(key, serialization.PrivateFormat.PKCS8), public, x509_fingerprint(public)
