"""The state of a guest's TPM. libvirt keeps it in a directory of its own, and deletes it with the domain. So it is saved to a
file of the guest before the domain is removed, and restored before the domain is defined again. When the domain is not defined
after all, libvirt deletes nothing: so the state is restored as the last step, and the end of a guest removes it whether there
was a domain or not.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import tarfile
import urllib.parse

from nova_lite import durable
from nova_lite.virt.libvirt.files import GuestDirectory, discard

_SYSTEM = "/var/lib/libvirt"


class TpmStates:
    """For one libvirt: that of the system, or a private one (see ``local_daemon``), whose files are beside its socket."""

    def __init__(self, connection_uri: str) -> None:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(connection_uri).query)
        private = pathlib.Path(query["socket"][0]).parent.parent / "lib" if "socket" in query else None
        root = private if private is not None and private.is_dir() else pathlib.Path(_SYSTEM)
        self._root = root / "swtpm"

    def save(self, uuid: str, files: GuestDirectory) -> None:
        """The guest is off, its domain about to go. A guest without a TPM, or whose domain is gone already, has nothing to
        save. Raises OSError."""
        state = self._root / uuid
        if not state.is_dir():
            return
        with durable.written_whole(files.tpm) as part:
            with tarfile.open(part, mode="w") as archive:
                archive.add(state, arcname=uuid)

    def restore(self, uuid: str, files: GuestDirectory) -> None:
        """Before the domain is defined. Raises OSError, also for a file with any other content than such a directory: the file
        may come from another host, and libvirt, as root, gives the directory to the user of the TPM."""
        if not files.tpm.exists():
            return
        part = self._root / f"{uuid}{durable.PART}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o711, parents=True)
        try:
            with tarfile.open(files.tpm) as archive:
                archive.extractall(part, _checked(archive, uuid), filter="data")      # noqa: S202  checked
            shutil.rmtree(self._root / uuid, ignore_errors=True)
            os.rename(part / uuid, self._root / uuid)
        except tarfile.TarError as error:
            raise OSError(f"{files.tpm}: {error}") from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
        files.tpm.unlink()

    def remove(self, uuid: str) -> None:
        """The domain is gone; what no domain was made for goes, too. There may be nothing. It loses its name first: half of
        it is never saved. Raises OSError."""
        part = self._root / f"{uuid}{durable.PART}"
        discard(part)
        with contextlib.suppress(FileNotFoundError):
            os.rename(self._root / uuid, part)
        discard(part)


def _checked(archive: tarfile.TarFile, uuid: str) -> list[tarfile.TarInfo]:
    """The content. Raises OSError for links, devices, and paths outside the directory of this guest."""
    members = archive.getmembers()
    for member in members:
        parts = member.name.split("/")
        if not (member.isdir() or member.isreg()) or parts[0] != uuid or ".." in parts:
            raise OSError(f"{member.name} cannot be a part of the state of a TPM")
    return members
