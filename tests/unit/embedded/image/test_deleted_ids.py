from __future__ import annotations

import uuid

from nova_lite.embedded.image.deleted_ids import DeletedIds


def test_ids_are_kept_in_37_bytes_each_whatever_a_killed_writer_has_left(tmp_path):
    path, ids = tmp_path / "deleted-ids", [str(uuid.uuid4()) for _ in range(4)]
    deleted = DeletedIds(path)
    assert ids[0] not in deleted
    for image_id in ids[:2]:
        deleted.add(image_id)
    with open(path, "a") as stream:
        stream.write(ids[3][:20])
    assert ids[3] not in deleted
    DeletedIds(path).add(ids[2])
    assert [image_id in deleted for image_id in ids] == [True, True, True, False]
    assert path.stat().st_size == 3 * 37
