"""[database]: where the state lives. Only the api, conductor and scheduler read these."""
from oslo_config import cfg

GROUP = "database"
OPTS = [
    cfg.StrOpt("connection", default="sqlite:////var/lib/nova_lite/nova_lite.sqlite", secret=True,
               help="SQLAlchemy URL: mysql+pymysql://, postgresql+psycopg2:// or sqlite://."),
    cfg.StrOpt("secret_keys_file", default="$state_path/secret_keys",
               help="Keys that seal secrets in the database, such as the adminPass of an open operation. 'nova-lite-manage db "
                    "sync' makes the file, 'secrets rotate' changes it. Each machine with an API or a conductor needs it."),
    cfg.IntOpt("max_pool_size", default=15, min=1, help="Most connections of one process."),
    cfg.IntOpt("purge_deleted_after", default=30 * 86400, min=0,
               help="Seconds after which deleted servers are removed from the database; 0 keeps them."),
]
