"""[key_manager]: keys of encrypted volumes. castellan itself reads the other options of its backend, in this group or another.
"""
from oslo_config import cfg

GROUP = "key_manager"
OPTS = [
    cfg.StrOpt("backend", default="barbican",
               help="Where keys are: barbican, vault, or what else castellan knows. nova.keymgr.conf_key_mgr.ConfKeyManager: "
                    "fixed_key is the only one."),
    cfg.StrOpt("fixed_key", secret=True,
               help="The key, in hexadecimal digits, of volumes whose key has the id 00000000-0000-0000-0000-000000000000 "
                    "(Cinder's ConfKeyManager)."),
]
