"""The tiny guest image, built once by ``tools/guest-image`` and kept for all later runs.

``python -m tests.guest`` prints its path, for `make run`.
"""
from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[1] / "tools" / "guest-image"


class ImageNotBuilt(Exception):
    """The text is all that ``build.sh`` said."""


def cache_directory() -> pathlib.Path:
    """``$NOVA_LITE_CACHE``, else ~/.cache/nova_lite."""
    return pathlib.Path(os.environ.get("NOVA_LITE_CACHE") or pathlib.Path.home() / ".cache" / "nova_lite")


def tiny_image() -> pathlib.Path:
    """The path of the image; built (about ten seconds, as root) when its sources have changed since. Raises ImageNotBuilt."""
    digest = hashlib.sha256()
    for path in sorted(p for p in SOURCE.rglob("*") if p.is_file() and p.suffix != ".md"):
        digest.update(f"{path.relative_to(SOURCE)}\0{path.stat().st_mode:o}\0".encode() + path.read_bytes())
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    image = directory / f"tiny-{digest.hexdigest()[:16]}.qcow2"
    with open(directory / "lock", "w") as lock:      # two test runs at once build it once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not image.exists():
            done = subprocess.run([SOURCE / "build.sh", image, directory / "debs"], capture_output=True, text=True,
                                  check=False)
            if done.returncode:
                raise ImageNotBuilt(done.stdout + done.stderr)
    return image


def main() -> None:
    """Print the path; what went wrong is one line, the last that the build said."""
    try:
        print(tiny_image())
    except ImageNotBuilt as error:
        raise SystemExit((str(error).strip().splitlines() or ["guest image: the build failed"])[-1]) from None


if __name__ == "__main__":
    main()
