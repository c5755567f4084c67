"""Runs inside a container: the limits, shared memory and GPUs that it was given. One JSON line per answer."""

import ctypes
import glob
import os
import resource
import sys
from typing import Any

from doctor.smoke.children.say import say


def main(args: list[str]) -> None:
    """What is promised first, then what the driver's libraries see."""
    shm = os.statvfs("/dev/shm")
    say(
        step="limits",
        state="ok",
        shm=shm.f_blocks * shm.f_frsize,
        memlock=resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        stack=resource.getrlimit(resource.RLIMIT_STACK)[0],
        nofile=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        uid=os.getuid(),
        nodes=sorted(glob.glob("/dev/nvidia*")),
        visible=os.environ.get("NVIDIA_VISIBLE_DEVICES"),
    )
    if args[:1] == ["gpus"]:
        say(step="nvml", state="start")
        say(step="nvml", **nvml())
        say(step="cuda", state="start")
        say(step="cuda", **cuda())
    say(done=True)


def nvml() -> dict[str, Any]:
    """UUIDs as NVML gives them, through ctypes: an image has no binding for it."""
    try:
        lib = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return {"state": "failed", "error": str(error)[:300]}
    lib.nvmlErrorString.restype = ctypes.c_char_p
    code = lib.nvmlInit_v2()
    if code:
        return {"state": "failed", "code": code, "error": lib.nvmlErrorString(code).decode()}
    count = ctypes.c_uint(0)
    code = lib.nvmlDeviceGetCount_v2(ctypes.byref(count))
    found = []
    for index in range(count.value):
        handle, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        code = code or lib.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle))
        code = code or lib.nvmlDeviceGetUUID(handle, text, ctypes.c_uint(96))
        found.append(text.value.decode("ascii", "replace"))
    lib.nvmlShutdown()
    if code:
        return {"state": "failed", "code": code, "error": lib.nvmlErrorString(code).decode()}
    return {"state": "ok", "uuids": found}


def cuda() -> dict[str, Any]:
    """UUIDs as the driver API gives them."""
    from doctor.smoke.children.driver_api import CudaError, Driver

    try:
        driver = Driver()
        driver.init()
        return {"state": "ok", "uuids": [driver.uuid(device) for device in driver.devices()]}
    except OSError as error:
        return {"state": "failed", "error": str(error)[:300]}
    except CudaError as problem:
        return {"state": "failed", **problem.as_json()}


if __name__ == "__main__":
    main(sys.argv[1:])
