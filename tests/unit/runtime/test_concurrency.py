"""Calls that stop other threads no more than they must."""
import subprocess
import sys

_GREEN = """
import os
os.environ["NOVA_LITE_CONCURRENCY"] = "eventlet"
from nova_lite.runtime import concurrency
concurrency.setup()
import threading
from eventlet import patcher
go_on = patcher.original("threading").Event()
def last():
    assert go_on.wait(120)
    return 1
def fail():
    raise KeyError("what it raised")
found = []
threads = [threading.Thread(target=lambda: found.append(concurrency.native_lasting(last))) for _ in range(40)]
for thread in threads:
    thread.start()
print(concurrency.native(len, "while they last"), flush=True)
go_on.set()
for thread in threads:
    thread.join()
print(sum(found), len(os.listdir("/proc/self/fd")) < 40)
try:
    concurrency.native_lasting(fail)
except KeyError as error:
    print(error)
"""


def test_calls_that_last_hold_up_no_other_native_calls():
    done = subprocess.run([sys.executable, "-c", _GREEN], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.splitlines() == ["15", "40 True", "'what it raised'"], done.stderr
