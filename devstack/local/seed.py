"""First contents of the neighbours and of nova_lite, by plain REST; whatever is there already stays.

usage: seed.py identity|image|network|volume|compute|tempest ...      (places, ports and STACK_PASSWORD come from the environment)
"""
import os
import pathlib
import sys
import time

import requests

ENV = os.environ
HOST, PASSWORD, REGION, KIND = ENV["STACK_HOST"], ENV["STACK_PASSWORD"], ENV["STACK_REGION"], ENV["STACK_KIND"]
FLAVORS = [("m1.nano", "42", 1, 128, 1), ("m1.micro", "84", 1, 192, 1), ("m1.tiny", "1", 1, 512, 1),
           ("m1.small", "2", 1, 2048, 20), ("m1.medium", "3", 2, 4096, 40)]
EXTERNAL, ROUTER = "172.24.4.0/24", "router1"


def url(service, path=""):
    return f"http://{HOST}:{ENV['P_' + service.upper()]}{path}"


KEYSTONE = url("keystone", "/v3")


class Cloud:
    """REST calls as admin."""

    def __init__(self):
        self.session = requests.Session()
        self.session.trust_env = False
        domain = {"id": "default"}
        answer = self.session.post(f"{KEYSTONE}/auth/tokens", timeout=60, json={"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": "admin", "domain": domain, "password": PASSWORD}}},
            "scope": {"project": {"name": "admin", "domain": domain}}}})
        if answer.status_code != 201:
            raise SystemExit(f"Keystone gives admin no token: {answer.status_code} {answer.text[:300]}")
        self.session.headers["X-Auth-Token"] = answer.headers["X-Subject-Token"]
        self.project = answer.json()["token"]["project"]["id"]

    def call(self, method, address, **kwargs):
        for attempt in range(5):
            try:
                answer = self.session.request(method, address, timeout=60, **kwargs)
                break
            except requests.ConnectionError:
                if attempt == 4:
                    raise
                time.sleep(0.5)
        if answer.status_code >= 300:
            raise SystemExit(f"{method} {address}: {answer.status_code} {answer.text[:500]}")
        return answer.json() if answer.content and "json" in answer.headers.get("content-type", "") else None

    def ensure(self, root, collection, one, name, **body):
        """The object of that name; made when there is none. Admin sees every project's: ``project_id`` says whose is meant."""
        owner = body.get("project_id")
        for found in self.call("GET", f"{root}/{collection}")[collection]:
            if found.get("name") == name and owner in (None, found.get("project_id")):
                return found
        return self.call("POST", f"{root}/{collection}", json={one: {"name": name, **body}})[one]


def identity(cloud):
    """Projects, users, roles; the catalog, with nova_lite as compute."""
    projects = {n: cloud.ensure(KEYSTONE, "projects", "project", n, domain_id="default")["id"]
                for n in ("service", "demo", "alt_demo")}
    projects["admin"] = cloud.project
    roles = {n: cloud.ensure(KEYSTONE, "roles", "role", n)["id"] for n in ("admin", "member", "reader", "service")}
    grants = [(n, "service", ("admin", "service")) for n in ("nova_lite", "neutron", "glance", "cinder", "barbican")]
    grants += [("demo", "demo", ("member", "reader")), ("alt_demo", "alt_demo", ("member", "reader")),
               ("admin", "demo", ("admin",))]
    for user, project, wanted in grants:
        made = cloud.ensure(KEYSTONE, "users", "user", user, password=PASSWORD, domain_id="default")["id"]
        for role in wanted:
            cloud.call("PUT", f"{KEYSTONE}/projects/{projects[project]}/users/{made}/roles/{roles[role]}")
    catalog(cloud)


def catalog(cloud):
    """Services by the names that clients look for (apache-libcloud: nova), and endpoints; those of before are corrected."""
    wanted = [("image", "glance", url("glance")), ("network", "neutron", url("neutron")),
              ("block-storage", "cinder", url("cinder", "/v3")),
              ("volumev3", "cinderv3", url("cinder", "/v3/$(project_id)s")),
              ("compute", "nova", ENV.get("STACK_COMPUTE_URL") or url("compute", "/v2.1"))]
    if KIND == "real":
        wanted.append(("key-manager", "barbican", url("barbican")))
    services = {s["type"]: s for s in cloud.call("GET", f"{KEYSTONE}/services")["services"]}
    endpoints = {(e["service_id"], e["interface"]): e for e in cloud.call("GET", f"{KEYSTONE}/endpoints")["endpoints"]}
    for kind, name, address in wanted:
        made = services.get(kind) or cloud.call(
            "POST", f"{KEYSTONE}/services", json={"service": {"type": kind, "name": name}})["service"]
        service = made["id"]
        if made["name"] != name:
            cloud.call("PATCH", f"{KEYSTONE}/services/{service}", json={"service": {"name": name}})
        for interface in ("public", "internal", "admin"):
            known = endpoints.get((service, interface))
            if known is None:
                cloud.call("POST", f"{KEYSTONE}/endpoints", json={"endpoint": {
                    "service_id": service, "interface": interface, "region_id": REGION, "url": address}})
            elif known["url"] != address:
                cloud.call("PATCH", f"{KEYSTONE}/endpoints/{known['id']}", json={"endpoint": {"url": address}})


def put_image(cloud, name):
    """The id of the public image of that name: the file STACK_IMAGE, or some zeros for the fake hypervisor."""
    root, path, made = url("glance", "/v2"), ENV.get("STACK_IMAGE"), None
    for found in cloud.call("GET", f"{root}/images?name={name}&visibility=public")["images"]:
        if found["status"] == "active":
            return found["id"]
        made = found
    made = made or cloud.call("POST", f"{root}/images", json={
        "name": name, "disk_format": "qcow2" if path else "raw", "container_format": "bare", "visibility": "public"})
    cloud.call("PUT", f"{root}/images/{made['id']}/file", data=pathlib.Path(path).read_bytes() if path else bytes(1 << 16),
               headers={"Content-Type": "application/octet-stream"})
    return made["id"]


def image(cloud):
    """The public image "tiny"."""
    put_image(cloud, "tiny")


def network(cloud):
    """External network, demo's private one, the router between them, a default subnet pool (for networks: auto)."""
    root = url("neutron", "/v2.0")
    demo = cloud.call("GET", f"{KEYSTONE}/projects?name=demo")["projects"][0]["id"]
    public = cloud.ensure(root, "networks", "network", "public", **{
        "router:external": True, "is_default": True, "provider:network_type": "flat", "provider:physical_network": "public"})
    private = cloud.ensure(root, "networks", "network", "private", project_id=demo)
    cloud.ensure(root, "subnetpools", "subnetpool", "default-v4", is_default=True, shared=True, prefixes=["10.64.0.0/12"],
                 default_prefixlen=26)
    cloud.ensure(root, "subnets", "subnet", "public-subnet", network_id=public["id"], ip_version=4, cidr=EXTERNAL,
                 gateway_ip=EXTERNAL.replace("0/24", "1"), enable_dhcp=False,
                 # the addresses up to .9 belong to this machine, the second host (lib/hosts.sh) and tests/two_hosts
                 allocation_pools=[{"start": EXTERNAL.replace("0/24", "10"), "end": EXTERNAL.replace("0/24", "254")}])
    subnet = cloud.ensure(root, "subnets", "subnet", "private-subnet", network_id=private["id"], ip_version=4,
                          cidr="10.11.0.0/16", project_id=demo)
    router = cloud.ensure(root, "routers", "router", ROUTER, project_id=demo,
                          external_gateway_info={"network_id": public["id"]})
    if not cloud.call("GET", f"{root}/ports?device_id={router['id']}&network_id={private['id']}")["ports"]:
        cloud.call("PUT", f"{root}/routers/{router['id']}/add_router_interface", json={"subnet_id": subnet["id"]})


def volume(cloud):
    """A type for the backend, one whose volumes may be attached several times, and, where there is Barbican, an encrypted one."""
    root, backend = url("cinder", f"/v3/{cloud.project}"), "rbd" if KIND == "real" else "dataless"
    specs = {"volume_backend_name": backend}
    have = {t["name"]: t["id"] for t in cloud.call("GET", f"{root}/types")["volume_types"]}
    for name, more in ((backend, {}), ("multiattach", {"multiattach": "<is> True"}), *([("luks", {})] if KIND == "real" else ())):
        if name not in have:
            body = {"volume_type": {"name": name, "extra_specs": {**specs, **more}}}
            have[name] = cloud.call("POST", f"{root}/types", json=body)["volume_type"]["id"]
    if "luks" in have and not cloud.call("GET", f"{root}/types/{have['luks']}/encryption"):
        cloud.call("POST", f"{root}/types/{have['luks']}/encryption", json={"encryption": {
            "provider": "luks", "cipher": "aes-xts-plain64", "key_size": 256, "control_location": "front-end"}})


def compute(cloud):
    """Flavors."""
    root = url("compute", "/v2.1")
    have = {f["name"] for f in cloud.call("GET", f"{root}/flavors?is_public=None")["flavors"]}
    for name, ident, vcpus, ram, disk in FLAVORS:
        if name not in have:
            cloud.call("POST", f"{root}/flavors", json={"flavor": {
                "name": name, "id": ident, "vcpus": vcpus, "ram": ram, "disk": disk}})


def tempest(cloud):
    """Two images, named as their file, for "tiny" may be an older one; prints their ids and that of the external network."""
    name = pathlib.Path(ENV["STACK_IMAGE"]).stem if "STACK_IMAGE" in ENV else "tiny"
    ids = [put_image(cloud, name), put_image(cloud, f"{name}-alt")]
    ids.append(cloud.call("GET", url("neutron", "/v2.0/networks?name=public"))["networks"][0]["id"])
    print(*ids)


if __name__ == "__main__":
    PARTS = {"identity": identity, "image": image, "network": network, "volume": volume, "compute": compute,
             "tempest": tempest}
    admin = Cloud()
    for part in sys.argv[1:]:
        PARTS[part](admin)
