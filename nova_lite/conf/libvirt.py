"""[libvirt]: the KVM and QEMU driver."""
from oslo_config import cfg, types

GROUP = "libvirt"


class _ImagesType(types.String):
    """flat is Nova's other name of raw."""

    def __call__(self, value: str) -> str:
        said = str(super().__call__(value))
        return "raw" if said == "flat" else said


OPTS = [
    cfg.StrOpt("connection_uri", default="qemu:///system", help="URI of the local libvirt daemon."),
    cfg.StrOpt("virt_type", default="auto", choices=["auto", "kvm", "qemu"],
               help="auto: KVM where the host can run a guest with it, else QEMU's emulation."),
    cfg.StrOpt("cpu_mode", default="", choices=["", "host-model", "host-passthrough", "custom", "none"],
               help="CPU of the guests; empty: host-model with KVM, the emulator's own model without."),
    cfg.StrOpt("cpu_model", default="", help="Model for cpu_mode=custom."),
    cfg.StrOpt("machine_type", default="", help="Machine type of new guests; empty: pc on x86-64."),
    cfg.Opt("images_type", type=_ImagesType(choices=["qcow2", "raw", "flat", "rbd"]), default="qcow2",
            help="Format of the disks of new guests, which are files (flat: raw); rbd: they are images in a Ceph pool. A guest "
                 "keeps the format that its disks were made in. Change it from or to rbd while the host has no guests."),
    cfg.StrOpt("images_rbd_pool", default="rbd", help="That pool."),
    cfg.StrOpt("images_rbd_ceph_conf", default="", help="Its configuration file; empty: Ceph's default."),
    cfg.StrOpt("rbd_user", default="",
               help="Ceph user of this host (client.ID, with a keyring that ceph.conf names or that is beside it); "
                    "empty: admin, of a cluster without authentication."),
    cfg.StrOpt("rbd_secret_uuid", default="", help="libvirt's secret with the key of rbd_user, for QEMU."),
    cfg.StrOpt("migration_address", default="",
               help="Address of this host in the network on which moving guests travel, disks and memory; empty: my_ip."),
    cfg.StrOpt("live_migration_uri", default="",
               help="By which libvirt of another host reaches libvirt of this one, for running guests that come here; %s is "
                    "migration_address. Empty: qemu+tcp://%s/system. The other host refuses the transport ext and the "
                    "parameter command, which make it run a program."),
    cfg.BoolOpt("live_migration_permit_auto_converge", default=False,
                help="Slow a running guest down as long as it changes its memory faster than that is copied."),
    cfg.BoolOpt("live_migration_permit_post_copy", default=False,
                help="A forced completion lets the guest run at its new host before all its memory is there; without this it "
                     "is paused for the rest of the copy. Both hosts have to permit it; there is no auto-converge then. "
                     "QEMU runs as root, or sysctl vm.unprivileged_userfaultfd=1."),
    cfg.IntOpt("live_migration_completion_timeout", default=800, min=0,
               help="Seconds that a copy may take for each GiB of memory and disks, two GiB at least; 0: for ever."),
    cfg.StrOpt("live_migration_timeout_action", default="abort", choices=["abort", "force_complete"],
               help="What happens to a copy that takes longer; force_complete: post-copy, or the guest is paused."),
    cfg.BoolOpt("live_migration_with_native_tls", default=False,
                help="QEMU encrypts memory and disks on their way (certificates as QEMU's documentation of migration says)."),
    cfg.StrOpt("disk_cachemode", default="none", help="QEMU cache mode of file disks."),
    cfg.IntOpt("keep_unused_images", default=86400, min=0,
               help="Seconds that an image which no guest uses stays in the host's cache; 0: for ever."),
]
