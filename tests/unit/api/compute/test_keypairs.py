"""/os-keypairs."""
import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tests.unit.api.compute.conftest import assert_like_sample, sample_versions

# made for this test; the fingerprint is what `ssh-keygen -l -E md5` says
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJW9hu0H1Lr/gHBMkNDqQg2SlQ3kEwDBgPbdGbUxH5Iy me@host"


def post(client, name="k", status=None, **more):
    expected = status or (200 if client.version == "2.1" else 201)
    return client.post("/os-keypairs", {"keypair": {"name": name, **more}}, expected)


@pytest.mark.parametrize("version", sample_versions("os-keypairs/keypairs-import-post-resp"))
def test_views_have_the_keys_of_the_samples(member, version):
    client = member.at(version)
    assert_like_sample(post(client, public_key=KEY), "os-keypairs/keypairs-import-post-resp", version)
    if version != "2.92":
        assert_like_sample(client.get("/os-keypairs/k"), "os-keypairs/keypairs-get-resp", version)
        assert_like_sample(client.get("/os-keypairs"), "os-keypairs/keypairs-list-resp", version)
        assert_like_sample(post(client, "new"), "os-keypairs/keypairs-post-resp", version)


def test_fingerprint_is_the_one_of_ssh_keygen(member, tmp_path):
    (tmp_path / "key.pub").write_text(KEY)
    printed = subprocess.run(["ssh-keygen", "-l", "-E", "md5", "-f", tmp_path / "key.pub"], capture_output=True, text=True,
                             check=True).stdout
    assert "MD5:" + post(member, public_key=KEY)["keypair"]["fingerprint"] in printed


def test_a_made_key_belongs_to_its_public_half(member):
    made = post(member)["keypair"]
    private = serialization.load_pem_private_key(made["private_key"].encode(), None)
    public = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert made["public_key"].split()[:2] == public.decode().split()
    shown = member.get("/os-keypairs/k")["keypair"]
    assert "private_key" not in shown
    assert shown["fingerprint"] == made["fingerprint"]


def test_certificates(member):
    made = post(member.at("2.2"), type="x509")["keypair"]
    certificate = x509.load_pem_x509_certificate(made["public_key"].encode())
    private = serialization.load_pem_private_key(made["private_key"].encode(), None)
    assert certificate.public_key() == private.public_key()
    assert len(made["fingerprint"]) == 59       # SHA1 in pairs with colons
    brought = post(member.at("2.92"), "again", public_key=made["public_key"], type="x509")["keypair"]
    assert brought["fingerprint"] == made["fingerprint"]
    assert "failed to generate X509 fingerprint" in post(member.at("2.2"), "bad", 400, public_key=KEY,
                                                         type="x509")["badRequest"]["message"]


@pytest.mark.parametrize("key", ["", "ssh-rsa", "ssh-rsa AAAA", "ssh-rsa !!!", KEY.replace("ed25519", "rsa", 1), "x" * 70000,
                                 "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJW9 x", "ssh-rsa \u00e4\u00e4\u00e4"])
def test_keys_that_are_none(member, key):
    assert post(member, status=400, public_key=key)["badRequest"]["message"] == \
        "Keypair data is invalid: failed to generate fingerprint"


def test_names(member):
    assert post(member, "a/b", 400, public_key=KEY)["badRequest"]["message"] == \
        "Keypair data is invalid: Keypair name contains unsafe characters"
    post(member.at("2.91"), "me@home.net", 400, public_key=KEY)
    post(member.at("2.92"), "me@home.net", public_key=KEY)
    post(member, " x", 400, public_key=KEY)
    post(member, "x" * 256, 400, public_key=KEY)
    assert member.at("2.92").get("/os-keypairs/me@home.net")["keypair"]["name"] == "me@home.net"


def test_since_2_92_no_keys_are_made(member):
    post(member.at("2.92"), status=400)


def test_a_name_is_taken_once_by_a_user(cloud, member):
    post(member, public_key=KEY)
    assert post(member, status=409, public_key=KEY)["conflictingRequest"]["message"] == "Key pair 'k' already exists."
    post(cloud.client("other"), public_key=KEY)


def test_delete(member):
    post(member, public_key=KEY)
    member.delete("/os-keypairs/k", 202)
    assert member.fault("DELETE", "/os-keypairs/k", 404) == "Keypair k not found for user fake"
    post(member.at("2.2"), public_key=KEY)
    member.at("2.2").delete("/os-keypairs/k", 204)


def test_keys_of_another_user(cloud, admin, member):
    admin = admin.at("2.10")
    assert post(admin, public_key=KEY, user_id="fake")["keypair"]["user_id"] == "fake"
    assert member.get("/os-keypairs/k")["keypair"]["user_id"] == "fake"
    assert len(admin.get("/os-keypairs?user_id=fake")["keypairs"]) == 1
    assert admin.get("/os-keypairs")["keypairs"] == []
    assert admin.at("2.9").get("/os-keypairs?user_id=fake")["keypairs"] == []
    admin.get("/os-keypairs/k?user_id=fake")
    stranger = cloud.client("stranger", version="2.10")
    stranger.get("/os-keypairs?user_id=fake", 403)
    stranger.get("/os-keypairs/k?user_id=fake", 403)
    stranger.delete("/os-keypairs/k?user_id=fake", 403)
    post(stranger, "x", 403, public_key=KEY, user_id="fake")
    post(member.at("2.9"), "x", 400, public_key=KEY, user_id="fake")
    admin.delete("/os-keypairs/k?user_id=fake")


def test_pages_since_2_35(member):
    for name in ("c", "a", "b"):
        post(member, name, public_key=KEY)
    client = member.at("2.35")
    first = client.get("/os-keypairs?limit=2")
    assert [item["keypair"]["name"] for item in first["keypairs"]] == ["a", "b"]
    assert first["keypairs_links"] == [{"rel": "next", "href": "http://localhost:8774/v2.1/os-keypairs?limit=2&marker=b"}]
    assert [item["keypair"]["name"] for item in client.get("/os-keypairs?limit=2&marker=b")["keypairs"]] == ["c"]
    assert client.fault("GET", "/os-keypairs?marker=x", 400) == "marker [x] not found"
    assert len(member.at("2.34").get("/os-keypairs?limit=2")["keypairs"]) == 3


class TestQuota:
    @pytest.fixture
    def options(self):
        return {"quota__key_pairs": 1}

    def test_quota(self, cloud, member):
        post(member, public_key=KEY)
        assert post(member, "second", 403, public_key=KEY)["forbidden"]["message"] == \
            "Quota exceeded, too many key pairs."
        post(cloud.client("other"), public_key=KEY)
        member.delete("/os-keypairs/k", 202)
        post(member, "second", public_key=KEY)
