"""Two compute hosts with a server each: h1 is honest, h2 is in the hands of an attacker."""
import json

import sqlalchemy as sa

from nova_lite.context import RequestContext, admin_context
from nova_lite.db import actions, console_auth_tokens, instances, models, moves, networks
from nova_lite.objects import action as objects
from nova_lite.objects.console import ConsoleAuthToken, digest
from nova_lite.rpc.conductor import ConductorAPI
from nova_lite.rpc.sender import Sender

ADMIN = admin_context()
SECRETS = ("TOP-SECRET", "victims-project", "10.77.0.", "victims-name", "5901")
TOKEN = digest("a token")


class World:
    """``theirs`` is a server of h1 with all that is worth stealing; ``mine`` one of h2, with a stop that h2 holds."""

    def __init__(self, make_cloud, **options):
        self.cloud = cloud = make_cloud("h1", **options)
        self.theirs, self.gone = (cloud.active(
            user_data="TOP-SECRET", project_id="victims-project", user_id="victim", display_name="victims-name",
            metadata={"password": "TOP-SECRET"}) for _ in range(2))
        cloud.wait_action(cloud.operate(self.gone, "delete"), objects.DONE)
        cloud.add_host("h2")
        self.mine = cloud.active()
        assert (cloud.get(self.theirs).host, cloud.get(self.mine).host) == ("h1", "h2")
        self.network = cloud.db.write(networks.create_network, "victims-name", "10.77.0.0/24", "victims-project")["uuid"]
        [self.port] = cloud.db.write(networks.allocate_ports, self.theirs, "victims-project", "h1",
                                     [{"network_id": self.network}])
        with cloud.db.read() as conn:
            self.group = networks.list_host_ports(conn, "h1")[0]["security_groups"][0]
        cloud.db.write(console_auth_tokens.create, TOKEN, ConsoleAuthToken(
            instance_uuid=self.theirs, compute_host="h1", console_type="novnc", host="h1", port=5901), 600)
        self.move = self.move_to("h3")
        self.my_stop = self.hold("h2", self.mine, "stop")
        self.my_build = self.hold("h2", self.mine, "build", alternates=[])
        self.my_nic = self.hold("h2", self.mine, "attach_interface")
        self.their_stop = self.hold("h1", self.theirs, "stop", admin_password="TOP-SECRET")
        self.their_move = self.hold("h1", self.theirs, "live_migrate", migration_id=self.move)

    @staticmethod
    def owner(host):
        """The process of a host that holds its leases."""
        return f"{host}:1:0123456789ab"

    def move_to(self, host):
        """A move of the victim's server that goes on."""
        return self.cloud.db.write(lambda conn: moves.create(
            conn, instances.get(conn, self.theirs), "live-migration", "running", dest_compute=host)).id

    def hold(self, host, server, verb, **arguments):
        """An action that a host has claimed."""
        def write(conn):
            [action_id] = actions.create(conn, RequestContext(user_id="u", project_id="p", overwrite=False), verb, [server], 60,
                                         objects.COMPUTE, host, arguments)
            actions.take(conn, list(actions.lock(conn, [action_id]).values()), self.owner(host), 3600)
            return action_id
        return self.cloud.db.write(write)

    def wait_for(self, host, server, verb):
        """An action that waits for a host."""
        def write(conn):
            return actions.create(conn, RequestContext(user_id="u", project_id="p", overwrite=False), verb, [server], 60,
                                  objects.COMPUTE, host)[0]
        return self.cloud.db.write(write)

    def client(self, host):
        """What calls the conductor as a host."""
        return ConductorAPI(self.cloud.transport, Sender(host), self.cloud.clock)

    def rows(self):
        """All that the database holds but when hosts were last seen."""
        with self.cloud.db.read() as conn:
            return {table.name: sorted(repr({k: v for k, v in row._mapping.items() if k not in ("last_seen_at", "updated_at")})
                                       for row in conn.execute(sa.select(table)))
                    for table in models.metadata.sorted_tables}

    @staticmethod
    def secrets_in(answer):
        """What an answer gives away."""
        text = json.dumps(answer, default=str)
        return [secret for secret in SECRETS if secret in text]
