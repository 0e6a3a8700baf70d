"""Sends notifications from a thread of its own: no operation waits for the broker, and none fails with it.

While the broker is away the thread waits for it, and keeps :data:`CAPACITY` transactions; beyond that, the newest are dropped
with a warning. A message may arrive twice when the broker dies at the wrong moment.
"""
from __future__ import annotations

import atexit
import math
import os
import queue
import threading
import time
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, rpc, units
from nova_lite.db.journal import Journal
from nova_lite.notifications import events, unversioned, versioned

LOG = log.getLogger(__name__)
CAPACITY = 10_000
CLOSE_SECONDS = 5.0
EXCHANGE = "nova"
"""Where billing tools look, unless ``control_exchange`` is set."""


class Sender:
    """A ``db.journal.Listener``."""

    def __init__(self, conf: cfg.ConfigOpts, service: str) -> None:
        self._service, self._host = service, conf.host
        formats = {"both": ("versioned", "unversioned")}.get(conf.notifications.format, (conf.notifications.format,))
        transport = _transport(conf)
        rpc.follow(conf, transport, lambda: _transport(conf))
        settings = transport.conf.oslo_messaging_notifications
        # its own default, -1, means for ever once there was a connection, and never before
        common: dict[str, Any] = {"retry": settings.retry if settings.retry >= 0 else math.inf}
        if not settings.driver:
            common["driver"] = "messagingv2"
        self._versioned = messaging.Notifier(transport, topics=[versioned.TOPIC], **common) \
            if "versioned" in formats else None
        self._unversioned = messaging.Notifier(transport, **common) if "unversioned" in formats else None
        self._lock = threading.Lock()
        self._queue: queue.Queue[Journal] = queue.Queue(CAPACITY)
        self._pid: int | None = None
        self._dropped = 0
        self._closed = False

    def tell(self, journal: Journal) -> None:
        """Send what follows from a transaction, soon."""
        if not (journal.changes or journal.services):
            return
        self._start()
        try:
            self._queue.put_nowait(journal)
        except queue.Full:
            self._dropped += 1
            if self._dropped & (self._dropped - 1) == 0:      # the 1st, 2nd, 4th, 8th ...
                LOG.warning("the broker takes no notifications: those of %d transactions were dropped", self._dropped)

    def close(self) -> None:
        """Give what waits a few seconds to be sent."""
        deadline = time.monotonic() + (0 if self._closed else CLOSE_SECONDS)
        self._closed = True
        while self._pid == os.getpid() and self._queue.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.01)
        if self._pid == os.getpid() and self._queue.unfinished_tasks:
            LOG.warning("notifications of %d transactions were not sent", self._queue.unfinished_tasks)

    def _start(self) -> None:
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid != os.getpid():     # the first one of this process, which may be a fork
                self._queue = queue.Queue(CAPACITY)
                self._pid = os.getpid()
                atexit.register(self.close)
                threading.Thread(target=self._run, args=(self._queue,), name="notifications", daemon=True).start()

    def _run(self, waiting: queue.Queue[Journal]) -> None:
        while True:
            journal = waiting.get()
            try:
                self._send(journal)
            except Exception:
                LOG.exception("the notifications of a transaction were not sent")
            finally:
                waiting.task_done()

    def _send(self, journal: Journal) -> None:
        now = units.utcnow()
        for event in events.of(journal):
            service, host = ("compute", event.host) if event.host else (self._service, self._host)
            if self._versioned is not None:
                _emit(self._versioned, f"nova-{service}:{host}", event, f"instance.{event.text}", versioned.payload(event, now))
            kind = unversioned.event_type(event)
            if self._unversioned is not None and kind is not None:
                _emit(self._unversioned, f"{service}.{host}", event, kind, unversioned.payload(event, now))
        for what, service_record in journal.services if self._versioned is not None else ():
            publisher = f"{service_record['binary']}:{service_record['host']}"
            self._versioned.prepare(publisher_id=publisher).info(        # type: ignore[union-attr]
                {}, f"service.{what}", versioned.service_payload(service_record))


def _emit(notifier: messaging.Notifier, publisher: str, event: events.Event, event_type: str, payload: dict[str, Any]) -> None:
    ready = notifier.prepare(publisher_id=publisher)
    (ready.error if event.phase == events.ERROR else ready.info)(event.context, event_type, payload)


def _transport(conf: cfg.ConfigOpts) -> messaging.NotificationTransport:
    """The bus of ``[oslo_messaging_notifications] transport_url``, or that of everything else.

    It has options of its own, from the same files, since the defaults of our RPC (exchange, kind of queues) are not those
    that other services' listeners expect. No connection is made before the first message.
    """
    own = cfg.ConfigOpts()
    own([*(f"--config-file={file}" for file in conf.config_file or ()), *(f"--config-dir={d}" for d in conf.config_dir or ())],
        project="nova_lite", default_config_files=[], default_config_dirs=[])
    try:
        for one in (conf, own):
            messaging.TransportURL.parse(one)       # registers control_exchange and transport_url
        own.set_default("control_exchange", EXCHANGE)
        messaging.get_notification_transport(own, url="fake://").cleanup()      # registers its group
        url = own.oslo_messaging_notifications.transport_url or conf.transport_url
        return messaging.get_notification_transport(own, url=url)
    except (messaging.DriverLoadFailure, messaging.InvalidTransportURL, cfg.Error) as error:
        raise exception.ConfigError(reason=f"notifications cannot be sent: {error}") from error
