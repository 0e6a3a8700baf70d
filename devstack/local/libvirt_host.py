"""usage: libvirt_host.py up|down DIRECTORY [HOSTNAME [NETNS]]: nova_lite's private libvirtd below DIRECTORY; down ends its guests."""
import sys

from nova_lite.virt.libvirt.local_daemon import LocalDaemon

if __name__ == "__main__":
    daemon = LocalDaemon(*sys.argv[2:])
    print(daemon.start() if sys.argv[1] == "up" else daemon.stop() or "down")
