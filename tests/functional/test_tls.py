"""The cloud of one process with a certificate: what clouds.yaml and catalog call https is https."""
from __future__ import annotations

import subprocess

import pytest
import requests

from tests.support.cloud import Standalone
from tests.support.process import wait_for


@pytest.fixture
def certificate(tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"],
                   check=True, capture_output=True)
    return tmp_path / "cert.pem"


def test_the_standalone_cloud_serves_https(certificate, tmp_path, concurrency, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    cloud = Standalone(tmp_path / "cloud", concurrency, "--virt-driver", "fake", "--demo",
                       "--set", f"api.tls_cert_file={certificate}",
                       "--set", f"api.tls_key_file={certificate.with_name('key.pem')}")
    assert cloud.url.startswith("https://")
    try:
        cloud.start()
        links = requests.get(f"{cloud.url}/v2.1/", timeout=10).json()["version"]["links"]
        assert links[0]["href"] == f"{cloud.url}/v2.1/"
        assert cloud.token()
        wait_for("the demonstration, which is a client too",
                 lambda: f"The cloud answers at {cloud.url}/v2.1" in cloud.process.tail(80))
    finally:
        assert cloud.stop() == 0, cloud.process.tail()
