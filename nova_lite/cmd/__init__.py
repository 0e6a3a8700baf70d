"""The console scripts: one file each. Importing this package chooses the threads of the process, before anything else."""
import sys

from nova_lite.runtime import concurrency

try:
    concurrency.setup()
except ValueError as error:
    sys.exit(f"error: {error}")
