"""Shares of Manila: access is given to hosts by their address, with a lock that keeps users from taking it away."""
from __future__ import annotations

import time
from typing import Any

from oslo_config import cfg
from oslo_utils import uuidutils

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.identity.keystone import Client, NeighbourError
from nova_lite.objects.share import Share

_HEADERS = {"X-OpenStack-Manila-API-Version": "2.82"}     # the first in which an access rule can be locked
POLL, ALLOW_SECONDS = 1.0, 60.0


class ManilaShares:
    """The share driver ``manila``."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._client = Client(conf, "shared-file-system", "Manila", 2)

    def get(self, context: RequestContext, share_id: str) -> Share:
        """See ShareAPI."""
        found = self._call(context, "GET", share_id)["share"]
        places = self._call(context, "GET", share_id, "/export_locations")["export_locations"]
        best = next((p["path"] for p in places if p.get("preferred")), places[0]["path"] if places else None)
        return Share(found["id"], found["status"], found["share_proto"], best)

    def allow(self, context: RequestContext, share_id: str, address: str) -> None:
        """See ShareAPI."""
        deadline = time.monotonic() + ALLOW_SECONDS
        asked = False
        while True:
            rule = self._rule(context, share_id, address)
            if rule is not None and rule["state"] == "active":
                return
            if rule is None and not asked:
                asked = True
                self._act(context, share_id, {"allow_access": {
                    "access_type": "ip", "access_to": address, "access_level": "rw", "lock_visibility": True,
                    "lock_deletion": True, "lock_reason": "in use by a server"}})
            elif rule is None or rule["state"] == "error" or time.monotonic() > deadline:
                raise exception.ShareAccessFailed(share_id=share_id, address=address,
                                                  reason=f"the access is {rule['state'] if rule else 'gone'}")
            time.sleep(POLL if asked else 0)

    def deny(self, context: RequestContext, share_id: str, address: str) -> None:
        """See ShareAPI."""
        try:
            rule = self._rule(context, share_id, address)
            if rule is not None:
                self._act(context, share_id, {"deny_access": {"access_id": rule["id"], "unrestrict": True}})
        except exception.ShareNotFound:
            return

    def _rule(self, context: RequestContext, share_id: str, address: str) -> dict[str, Any] | None:
        rules = self._send(context, "GET", "/share-access-rules", share_id, params={"share_id": share_id})["access_list"]
        return next((r for r in rules if (r["access_type"], r["access_to"]) == ("ip", address)), None)

    def _act(self, context: RequestContext, share_id: str, body: dict[str, Any]) -> None:
        self._call(context, "POST", share_id, "/action", body)

    def _call(self, context: RequestContext, method: str, share_id: str, rest: str = "",
              body: dict[str, Any] | None = None) -> dict[str, Any]:
        if not uuidutils.is_uuid_like(share_id):
            raise exception.ShareNotFound(share_id=share_id)
        return self._send(context, method, f"/shares/{share_id}{rest}", share_id, json=body)

    def _send(self, context: RequestContext, method: str, path: str, share_id: str, **arguments: Any) -> dict[str, Any]:
        try:
            answer = self._client.call(context, method, path, headers=_HEADERS, **arguments)
        except NeighbourError as error:
            if error.status in (400, 404):
                raise exception.ShareNotFound(share_id=share_id) from error
            if error.status == 403:
                raise exception.Forbidden(f"Manila: {error.reason}") from error
            raise exception.ShareAccessFailed(share_id=share_id, address="this cloud", reason=error.reason) from error
        return dict(answer.json()) if answer.content else {}
