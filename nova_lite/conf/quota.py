"""[quota]: default limits; -1 is no limit. Per project and per class overrides are in the database."""
from oslo_config import cfg

GROUP = "quota"
OPTS = [
    cfg.StrOpt("driver", default="database", choices=["database", "keystone"],
               help="Where limits are kept. database: here, set by os-quota-sets. keystone: unified limits, read with "
                    "the credentials of [oslo_limit] (system_scope = all); the options below do not count then."),
    cfg.IntOpt("instances", default=10, min=-1, help="Servers of a project."),
    cfg.IntOpt("cores", default=20, min=-1, help="Virtual CPUs of a project."),
    cfg.IntOpt("ram", default=51200, min=-1, help="MiB of memory of a project."),
    cfg.IntOpt("metadata_items", default=128, min=-1, help="Metadata items of a server."),
    cfg.IntOpt("key_pairs", default=100, min=-1, help="Key pairs of a user."),
    cfg.IntOpt("server_groups", default=10, min=-1, help="Server groups of a project."),
    cfg.IntOpt("server_group_members", default=10, min=-1, help="Servers of a server group."),
]
