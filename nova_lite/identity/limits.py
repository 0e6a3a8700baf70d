"""Keystone's unified limits: the other place where quotas may be kept."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from keystoneauth1 import exceptions as ks
from oslo_config import cfg

from nova_lite import exception
from nova_lite.identity import keystone

GROUP = "oslo_limit"
NAMES = {"servers": "instances", "class:VCPU": "cores", "class:MEMORY_MB": "ram", "server_metadata_items": "metadata_items",
         "server_injected_files": "injected_files", "server_injected_file_content_bytes": "injected_file_content_bytes",
         "server_injected_file_path_bytes": "injected_file_path_bytes", "server_key_pairs": "key_pairs",
         "server_groups": "server_groups", "server_group_members": "server_group_members"}
"""Keystone's names of limits, which are those of Nova, and ours."""
Limits = dict[str, dict[str, int]]


class UnifiedLimits:
    """Nothing connects before the first question."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._session: Any = None
        self._service = ""

    def read(self) -> Limits:
        """All limits by project; those of "" (the registered ones) hold for every project that has none of its own.

        Raises ServiceUnavailable when Keystone does not answer, ConfigError without credentials or without a compute
        service there.
        """
        if self._session is None:
            self._session = keystone.make_session(self._conf, (GROUP,))
        try:
            service = self._find_service()
            found: Limits = {"": dict(_named(self._ask("registered_limits", service), "default_limit"))}
            for limit in self._ask("limits", service):
                if limit.get("project_id"):
                    found.setdefault(limit["project_id"], {}).update(_named([limit], "resource_limit"))
        except ks.ClientException as error:
            raise exception.ServiceUnavailable(what="Keystone", reason=f"its limits cannot be read: {error}",
                                               public="Keystone is unavailable: its limits cannot be read") from error
        return found

    def _find_service(self) -> str:
        """The id of the compute service, which limits belong to."""
        if not self._service:
            found = self._get("/services", {"type": "compute"})["services"]
            if not found:
                raise exception.ConfigError(reason="[quota] driver = keystone: Keystone has no service of type compute")
            self._service = found[0]["id"]
        return self._service

    def _ask(self, what: str, service: str) -> list[dict[str, Any]]:
        """Those of the region; where it has none, those that name no region."""
        found: list[dict[str, Any]] = self._get(f"/{what}", {"service_id": service})[what]
        return sorted((limit for limit in found if limit.get("region_id") in (None, self._conf.service_user.region_name)),
                      key=lambda limit: limit.get("region_id") is not None)

    def _get(self, path: str, params: Mapping[str, str]) -> dict[str, Any]:
        user = self._conf.service_user
        chosen = {"service_type": "identity", "interface": user.valid_interfaces, "min_version": (3, 0),
                  "region_name": user.region_name or None}
        answer = self._session.get(path, endpoint_filter=chosen, params=dict(params), log=False)
        return dict(answer.json())


def _named(limits: list[dict[str, Any]], value: str) -> Iterator[tuple[str, int]]:
    for limit in limits:
        if limit["resource_name"] in NAMES:
            yield NAMES[limit["resource_name"]], int(limit[value])
