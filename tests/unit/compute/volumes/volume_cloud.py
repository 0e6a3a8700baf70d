"""The whole way of a volume in one process: REST, database, conductor, fake hypervisors, and volumes in files.

:class:`Meddling` stands between a part and its neighbour (volumes or hypervisor) and lets a call fail, or its caller "die"
before or after it: nothing more is done or undone by the worker then, and its lease runs out.
"""
from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from nova_lite import exception, units
from nova_lite.api import app, auth
from nova_lite.api.openstack import router
from nova_lite.compute.api import ComputeAPI
from nova_lite.context import RequestContext
from nova_lite.db import flavors, models
from nova_lite.image import base as image_base
from nova_lite.network import base as network_base
from nova_lite.objects import states
from nova_lite.volume import base as volume_base
from tests.unit.api.compute.conftest import TABLE, Client, default_policy
from tests.unit.conductor.cloud import Cloud

DOWN = exception.ServiceUnavailable(what="Cinder", reason="it does not answer")
DIED = exception.ConductorAway(reason="a worker that dies here tells nobody")


class Meddling:
    """Passes all on to ``real``; ``rules``: method -> (when: before or after, what is raised, how often)."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.rules: dict[str, list[Any]] = {}
        self.calls: list[str] = []

    def fail(self, method: str, error: BaseException = DOWN, when: str = "before", times: int = 1) -> None:
        self.rules[method] = [when, error, times]

    def heal(self) -> None:
        self.rules.clear()

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if not callable(real):
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            when, error, times = self.rules.get(name, ("", None, 0))
            hit = times > 0
            if hit:
                self.rules[name][2] -= 1
            if hit and when == "before":
                raise error
            answer = real(*args, **kwargs)
            if hit:
                raise error
            return answer
        return call


class VolumeCloud(Cloud):
    """One or more hosts, an API with a member of project "p" and an admin, an image and flavors."""

    def __init__(self, directory: Any, hosts: tuple[str, ...] = ("h1",), **options: Any) -> None:
        super().__init__(directory, **options)
        image, network = image_base.load(self.conf), network_base.load(self.conf, None)
        self.volumes = volume_base.load(self.conf)
        self.api_volumes = Meddling(self.volumes)
        compute = ComputeAPI(self.conf, self.db, self.transport, image, network, self.api_volumes, self.clock)
        self.services = app.Services(self.conf, self.db, default_policy(), image, network,
                                     self.api_volumes, compute)
        self.app = auth.NoAuth2(auth.ContextFilter(router.Router(self.services, TABLE, validate_responses=True)))
        self.member = Client(self.app, "u", "p", version="2.89")
        self.other = Client(self.app, "x", "other", version="2.89")
        self.admin = Client(self.app, "a", "p", ("admin",), version="2.89")
        self.user = RequestContext(user_id="u", project_id="p", auth_token="u:p", overwrite=False)
        self.host_volumes: dict[str, Meddling] = {}
        self.drivers: dict[str, Meddling] = {}
        for host in hosts:
            self.add_meddled_host(host)
        self.conductor_volumes = Meddling(self.volumes)
        self.conductor.cleanup._volume = self.conductor.deferred_cleanup._volume = self.conductor_volumes
        made = image.create(self.user, {"name": "tiny", "min_disk": 1, "disk_format": "raw",
                                        "properties": {"hw_disk_bus": "virtio", "os_type": "linux"}})
        self.image = image.upload(self.user, made.id, [b"x" * 1024]).id
        for name, values in {"1": {"root_gb": 10}, "0": {"root_gb": 0}, "e": {"root_gb": 1, "ephemeral_gb": 4, "swap": 512},
                             "noswap": {"root_gb": 1, "ephemeral_gb": 4}
                             }.items():
            self.db.write(flavors.create, {"flavorid": name, "name": f"f{name}", "memory_mb": 512, "vcpus": 1, **values})

    def add_meddled_host(self, name: str) -> None:
        manager = self.add_host(name)
        self.host_volumes[name], self.drivers[name] = Meddling(self.volumes), Meddling(manager.host.driver)
        manager.host = dataclasses.replace(manager.host, volume=self.host_volumes[name], driver=self.drivers[name])

    # what users do --------------------------------------------------------------------------------------------------------
    def volume(self, size: int = 1, **values: Any) -> str:
        """A volume of the member's, ready."""
        bootable = values.pop("bootable", False)
        made = self.volumes.create(self.user, size, **values).id
        self.wait_for(lambda: self.volumes.get(self.user, made).status == "available")
        if bootable:
            self.volumes.update(self.user, made, {"bootable": True})
        return made

    def boot(self, *devices: dict[str, Any], client: Client | None = None, status: int = 202, **values: Any) -> Any:
        """POST /servers; the server's id, or (status not 202) the fault's message."""
        values.setdefault("flavorRef", "1")
        body = {"server": {"name": "vm", "networks": "none", **values}}
        if devices:
            body["server"]["block_device_mapping_v2"] = list(devices)
        client = client or self.member
        if status != 202:
            return client.fault("POST", "/servers", status, body)
        return client.post("/servers", body, 202)["server"]["id"]

    def running(self, *devices: dict[str, Any], **values: Any) -> str:
        if not devices:
            values.setdefault("imageRef", self.image)
        server = self.boot(*devices, **values)
        self.wait(server, states.ACTIVE, 10)
        return server

    def attach(self, server: str, volume: str, wait: bool = True, **values: Any) -> dict[str, Any]:
        shown = self.member.post(f"/servers/{server}/os-volume_attachments",
                                 {"volumeAttachment": {"volumeId": volume, **values}})["volumeAttachment"]
        if wait:
            self.wait_for(lambda: self.status(volume) == "in-use" and self.device(server, volume).attached)
        return shown

    def detach(self, server: str, volume: str, status: int = 202) -> None:
        self.member.delete(f"/servers/{server}/os-volume_attachments/{volume}", status)

    def delete(self, server: str) -> None:
        self.member.delete(f"/servers/{server}")
        self.wait_for(lambda: self.get(server).deleted, 15)

    # looking --------------------------------------------------------------------------------------------------------------
    def status(self, volume: str) -> str | None:
        """None: it is not there."""
        try:
            return self.volumes.get(RequestContext(), volume).status
        except exception.VolumeNotFound:
            return None

    def device(self, server: str, volume: str) -> Any:
        return next((d for d in self.get(server).block_devices if d.volume_id == volume), None)

    def all_volumes(self) -> set[str]:
        return {v.id for v in self.volumes.list_all(RequestContext())}

    def attachments(self) -> list[Any]:
        """Of all volumes: what ``volume attachment list`` shows."""
        return [b for v in self.volumes._all() for b in v.bindings]

    def last_action(self, server: str) -> dict[str, Any]:
        shown = self.member.get(f"/servers/{server}/os-instance-actions")["instanceActions"][0]
        return {**shown, "row": self._row(server, shown["request_id"])}

    def _row(self, server: str, request_id: str) -> Any:
        table = models.instance_actions
        with self.db.read() as conn:
            return conn.execute(table.select().where(table.c.instance_uuid == server,
                                                     table.c.request_id == request_id).order_by(table.c.id.desc())).first()

    def actions_end(self, server: str, timeout: float = 10) -> None:
        """Wait until nothing is open for a server."""
        table = models.instance_actions
        query = table.select().where(table.c.instance_uuid == server, table.c.state.in_(("pending", "running")))

        def none() -> bool:
            with self.db.read() as conn:
                return conn.execute(query).first() is None
        self.wait_for(none, timeout)

    def take_over(self) -> None:
        """Whoever was silent is given up, and the sweeper finds what it left."""
        self.expire()
        self.sweep()

    def run_deferred_cleanup(self) -> None:
        """The conductor looks at what failed actions have left, when its time has come."""
        self.expire()
        self.conductor.deferred_cleanup.run()

    def age(self, server: str) -> None:
        """Nothing was written to the server for an hour."""
        self.set(server, updated_at=units.utcnow() - datetime.timedelta(hours=1))


def existing(volume: str, boot_index: int | None = None, **more: Any) -> dict[str, Any]:
    return {"source_type": "volume", "destination_type": "volume", "uuid": volume, "boot_index": boot_index, **more}


def made_of(source: str, uuid: str | None, size: int | None = 1, boot_index: int | None = 0, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"source_type": source, "destination_type": "volume", "boot_index": boot_index, **more}
    return made | ({"uuid": uuid} if uuid else {}) | ({"volume_size": size} if size is not None else {})
