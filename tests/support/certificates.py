"""An authority of a test's own, and certificates by it, in the files that libvirt and QEMU look for."""
from __future__ import annotations

import datetime
import ipaddress
import os
import pathlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class Authority:
    """``directory``/ca-cert.pem, and what it signs beside it. ``owner``: who may read the keys besides root."""

    def __init__(self, directory: pathlib.Path, owner: int = -1) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)
        self.directory, self.file, self._owner = directory, directory / "ca-cert.pem", owner
        self._key, self._name = ec.generate_private_key(ec.SECP256R1()), _name(f"authority {directory.name}")
        made = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        made = made.add_extension(_usage(cert_sign=True), True)
        self._write(self.file, made.sign(self._key, hashes.SHA256()))

    def sign(self, prefix: str, *names: str, client: bool = False) -> tuple[pathlib.Path, pathlib.Path]:
        """``prefix``-cert.pem and ``prefix``-key.pem for hosts or addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH]
        made = self._builder(_name(names[0]), key).add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        made = made.add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), False)
        made = made.add_extension(x509.ExtendedKeyUsage(purposes), False).add_extension(_usage(cert_sign=False), True)
        certificate, private = self.directory / f"{prefix}-cert.pem", self.directory / f"{prefix}-key.pem"
        self._write(certificate, made.sign(self._key, hashes.SHA256()))
        with open(os.open(private, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as stream:
            stream.write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                           serialization.NoEncryption()))
        os.chown(private, self._owner, -1)
        return certificate, private

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
        made = x509.CertificateBuilder().subject_name(name).issuer_name(self._name).public_key(key.public_key())
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        made = made.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False)
        return made.serial_number(x509.random_serial_number()).not_valid_before(now - day).not_valid_after(now + day)

    @staticmethod
    def _write(path: pathlib.Path, certificate: x509.Certificate) -> None:
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        path.chmod(0o644)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(cert_sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(digital_signature=not cert_sign, content_commitment=False, key_encipherment=not cert_sign,
                         data_encipherment=False, key_agreement=False, key_cert_sign=cert_sign, crl_sign=False,
                         encipher_only=False, decipher_only=False)
