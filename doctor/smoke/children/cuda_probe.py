"""Runs in a disposable child: does the driver API really compute here? Arguments: `list`, `gpu INDEX` or `peers`.

Each answer is one JSON line; before a step begins its name is said, so that a hang has a place. A GPU per process:
an error or a hang of one neither hides nor spoils the others.
"""

import array
import ctypes
import sys
import time
from collections.abc import Callable
from typing import Any

from doctor.probes.children.no_exec import forbid_changes
from doctor.smoke.children.driver_api import (
    FACTOR,
    CudaError,
    Driver,
    Gpu,
    loaded_path,
    target_of,
)
from doctor.smoke.children.say import say

COPY_BYTES = 32 << 20
PEER_BYTES = 32 << 20
NUMBERS = 1 << 16
MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1


class WrongResult(Exception):
    """The call succeeded and its answer is not right."""


def main(args: list[str]) -> None:
    """Answer one question; the guard keeps the host as it is, as in the probe (see no_exec)."""
    say(guarded=forbid_changes())
    try:
        driver = Driver()
    except OSError as error:
        missing = "libcuda.so.1: cannot open shared object file" in str(error)
        say(step="load", state="failed", error="not-found" if missing else str(error)[:300])
        return
    say(step="load", state="ok", lib=loaded_path("libcuda.so"))
    if not begin(driver):
        return
    if args[0] == "list":
        listed(driver)
    elif args[0] == "gpu":
        one_gpu(driver, int(args[1]))
    else:
        peers(driver)


def begin(driver: Driver) -> bool:
    """cuInit and version; False after the error was said."""
    say(step="init", state="start")
    try:
        driver.init()
        version = driver.number("cuDriverGetVersion")
    except CudaError as problem:
        say(step="init", state="failed", **problem.as_json())
        return False
    say(step="init", state="ok", driver_cuda="%d.%d" % (version // 1000, version % 1000 // 10))
    return True


def listed(driver: Driver) -> None:
    """Name, identity and size of each GPU."""
    try:
        devices = driver.devices()
    except CudaError as problem:
        say(step="count", state="failed", **problem.as_json())
        return
    say(step="count", state="ok", count=len(devices))
    for index, device in enumerate(devices):
        try:
            say(
                gpu=index,
                name=driver.text("cuDeviceGetName", device),
                uuid=driver.uuid(device),
                pci=driver.pci(device),
                capability=driver.capability(device),
            )
        except CudaError as problem:
            say(gpu=index, state="failed", **problem.as_json())


def step(name: str, work: Callable[[], dict[str, Any]], **where: Any) -> bool:
    """Say that a step begins, do it, say how it ended."""
    say(step=name, state="start", **where)
    started = time.perf_counter()
    try:
        found = work()
    except CudaError as problem:
        say(step=name, state="failed", **where, **problem.as_json())
        return False
    except WrongResult as problem:
        say(step=name, state="wrong", error=str(problem), **where)
        return False
    say(step=name, state="ok", ms=round((time.perf_counter() - started) * 1e3, 1), **where, **found)
    return True


def one_gpu(driver: Driver, index: int) -> None:
    """Context, memory, copies, kernel; then everything is given back, whatever happened."""
    held: list[Gpu] = []

    def context() -> dict[str, Any]:
        held.append(Gpu(driver, driver.devices()[index]))
        free, total = held[0].free_and_total()
        return {"free": free, "total": total}

    if step("context", context):
        gpu = held[0]
        addresses: list[int] = []
        ready = (
            step("memory", lambda: memory(gpu, addresses))
            and step("copy", lambda: copies(gpu, addresses))
            and step("kernel", lambda: kernel(gpu))
        )
        step("release", lambda: release(gpu))
        say(done=ready)


def memory(gpu: Gpu, addresses: list[int]) -> dict[str, Any]:
    """Two buffers."""
    addresses += [gpu.allocate(COPY_BYTES), gpu.allocate(COPY_BYTES)]
    return {"bytes": 2 * COPY_BYTES}


def copies(gpu: Gpu, addresses: list[int]) -> dict[str, Any]:
    """Host to GPU, GPU to GPU, GPU to host, every byte compared."""
    first, second = addresses
    data = pattern(COPY_BYTES, 1)
    gpu.write(first, data)
    gpu.driver.call(
        "cuMemcpyDtoD_v2",
        ctypes.c_uint64(second),
        ctypes.c_uint64(first),
        ctypes.c_size_t(COPY_BYTES),
    )
    same(gpu.read(second, COPY_BYTES), data, "host -> GPU -> GPU -> host")
    return {"bytes": COPY_BYTES}


def kernel(gpu: Gpu) -> dict[str, Any]:
    """Compile PTX for this GPU, run it, compare every number and the total."""
    target = target_of(gpu.driver.capability(gpu.device))
    data = pattern(4 * NUMBERS, 2)
    source, out, total = (gpu.allocate(size) for size in (len(data), len(data), 8))
    gpu.write(source, data)
    computed(gpu, gpu.kernel(target), source, out, total, data)
    return {"numbers": NUMBERS, "target": target}


def computed(
    gpu: Gpu, function: ctypes.c_void_p, source: int, out: int, total: int, data: bytes
) -> None:
    """Run the kernel and compare with the same sum done here."""
    gpu.fill(total, 8, 0)
    gpu.launch(function, source, out, total, len(data) // 4)
    numbers = [
        (number * FACTOR + place) & MASK32 for place, number in enumerate(array.array("I", data))
    ]
    same(gpu.read(out, len(data)), array.array("I", numbers).tobytes(), "kernel")
    found = int.from_bytes(gpu.read(total, 8), "little")
    if found != sum(numbers) & MASK64:
        raise WrongResult("the kernel's sum is %d, not %d" % (found, sum(numbers) & MASK64))


def release(gpu: Gpu) -> dict[str, Any]:
    """Nothing stays on the GPU."""
    problems = gpu.close()
    if problems:
        raise problems[0]
    flags, active = ctypes.c_uint(0), ctypes.c_int(1)
    gpu.driver.call(
        "cuDevicePrimaryCtxGetState",
        ctypes.c_int(gpu.device),
        ctypes.byref(flags),
        ctypes.byref(active),
    )
    if active.value:
        raise WrongResult("the context is still there after its release")
    return {}


def peers(driver: Driver) -> None:
    """Every ordered pair: copy between them, and where P2P is there a kernel that reads the other's memory."""
    gpus: list[Gpu] = []
    try:
        devices = driver.devices()
        for device in devices:
            gpus.append(Gpu(driver, device))
    except CudaError as problem:
        say(step="peers", state="failed", **problem.as_json())
    else:
        for here, gpu in enumerate(gpus):
            for there, other in enumerate(gpus):
                if gpu is not other:
                    where = {"from": there, "to": here}
                    step("peer", lambda a=gpu, b=other: pair(a, b), **where)  # type: ignore[misc]
        say(done=True)
    for gpu in gpus:
        for left in gpu.close():
            say(step="release", state="failed", gpu=gpu.device, **left.as_json())


def pair(gpu: Gpu, other: Gpu) -> dict[str, Any]:
    """From `other` to `gpu`. Without P2P the driver copies through host memory: slower and as exact."""
    driver = gpu.driver
    access = bool(
        driver.number("cuDeviceCanAccessPeer", ctypes.c_int(gpu.device), ctypes.c_int(other.device))
    )
    data = pattern(PEER_BYTES, 3 + 16 * gpu.device + other.device)
    other.use()
    source = other.allocate(PEER_BYTES)
    other.write(source, data)
    gpu.use()
    out = gpu.allocate(PEER_BYTES)
    gpu.wait()
    if access:
        driver.call("cuCtxEnablePeerAccess", other.context, ctypes.c_uint(0))
    try:
        arguments = (
            ctypes.c_uint64(out),
            gpu.context,
            ctypes.c_uint64(source),
            other.context,
            ctypes.c_size_t(PEER_BYTES),
        )
        driver.call("cuMemcpyPeer", *arguments)
        gpu.wait()
        same(gpu.read(out, PEER_BYTES), data, "copy between GPUs")
        started = time.perf_counter()
        for _ in range(8):
            driver.call("cuMemcpyPeer", *arguments)
        gpu.wait()
        seconds = time.perf_counter() - started
        if access:
            total = gpu.allocate(8)
            function = gpu.kernel(target_of(driver.capability(gpu.device)))
            computed(gpu, function, source, out, total, data[: 4 * NUMBERS])
            gpu.free(total)
    finally:
        if access:
            gpu.use()
            driver.call("cuCtxDisablePeerAccess", other.context)
    gpu.free(out)
    other.use()
    other.free(source)
    return {"access": access, "gb_s": round(8 * PEER_BYTES / seconds / 1e9, 1)}


def pattern(size: int, seed: int) -> bytes:
    """Bytes that no shift or swap of blocks leaves equal: a prime number of random ones, repeated."""
    import random

    block = random.Random(seed).getrandbits(8 * 65521).to_bytes(65521, "little")
    return (block * (size // len(block) + 1))[:size]


def same(found: bytes, wanted: bytes, what: str) -> None:
    """Every byte, or where the first difference is."""
    if found == wanted:
        return
    place = next(i for i, (a, b) in enumerate(zip(found, wanted)) if a != b)
    wrong = sum(a != b for a, b in zip(found, wanted))
    raise WrongResult(
        "%s: %d of %d bytes are wrong, the first at %d" % (what, wrong, len(wanted), place)
    )


if __name__ == "__main__":
    main(sys.argv[1:])
