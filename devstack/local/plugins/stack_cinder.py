"""A Cinder backend without any data: volumes, snapshots and attachments exist in Cinder's database only.

Connections look like iSCSI with CHAP, so that what nova_lite does with the secret in them can be seen.
"""
import io

from cinder.volume import driver

STATS = {"vendor_name": "nova_lite", "driver_version": "1", "storage_protocol": "iSCSI", "total_capacity_gb": "infinite",
         "free_capacity_gb": "infinite", "reserved_percentage": 0, "multiattach": True, "thin_provisioning_support": True,
         "max_over_subscription_ratio": "20.0", "QoS_support": False, "online_extend_support": True}


class DatalessDriver(driver.VolumeDriver):
    """Every operation succeeds at once."""

    VERSION = "1.0"

    def check_for_setup_error(self):
        """Nothing can be wrong."""

    def _update_volume_stats(self):
        self._stats = {**STATS, "volume_backend_name": self.configuration.safe_get("volume_backend_name")}

    def _nothing(self, *_args, **_kwargs):
        return None

    create_volume = delete_volume = create_snapshot = delete_snapshot = extend_volume = _nothing
    create_volume_from_snapshot = create_cloned_volume = copy_image_to_volume = _nothing
    ensure_export = create_export = remove_export = terminate_connection = _nothing

    def clone_image(self, context, volume, image_location, image_meta, image_service):
        """As a backend that has the image already: no copy is made."""
        return {}, True

    def copy_volume_to_image(self, context, volume, image_service, image_meta):
        """A few zeros."""
        image_service.update(context, image_meta["id"], {}, io.BytesIO(bytes(4096)))

    def initialize_connection(self, volume, connector):
        """An iSCSI target that nobody serves."""
        return {"driver_volume_type": "iscsi", "data": {
            "target_discovered": False, "target_portal": "127.0.0.1:3260", "target_lun": 1, "volume_id": volume["id"],
            "target_iqn": f"iqn.2010-10.org.openstack:volume-{volume['id']}", "auth_method": "CHAP",
            "auth_username": "stack", "auth_password": f"chap-secret-{volume['id'][:8]}", "discard": False}}

    def retype(self, context, volume, new_type, diff, host):
        """Any type will do."""
        return True, None
