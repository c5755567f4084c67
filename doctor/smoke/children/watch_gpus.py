"""Runs in a child: GPU memory and use through NVML, one JSON line per GPU and second, until it is ended. Standard library only."""

import ctypes
import json
import sys
import time
from typing import Any, List


class Memory(ctypes.Structure):
    """nvmlMemory_t: bytes."""

    _fields_ = [
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class Use(ctypes.Structure):
    """nvmlUtilization_t: percent of the last sample period in which the SMs, and the memory, were busy."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


def main(args: List[str]) -> None:
    """Sample for as long as wanted."""
    period = float(args[0]) if args else 1.0
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as problem:
        say(error=str(problem))
        return
    code = nvml.nvmlInit_v2()
    if code != 0:
        say(error="nvmlInit: %d" % code)
        return
    count = ctypes.c_uint()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    handles = []
    for index in range(count.value):
        handle = ctypes.c_void_p()
        if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0:
            handles.append((index, handle))
    while True:
        for index, handle in handles:
            memory, use = Memory(), Use()
            answer = {"gpu": index, "at": round(time.time(), 2)}
            if nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0:
                answer.update(memory_used=memory.used, memory_total=memory.total)
            if nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(use)) == 0:
                answer.update(sm_percent=use.gpu)
            say(**answer)
        time.sleep(period)


def say(**answer: Any) -> None:
    """One line at once."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
