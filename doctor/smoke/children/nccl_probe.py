"""Runs in a disposable child: does NCCL add right over all GPUs, and how fast? Arguments: LIBRARY LARGEST_BYTES.

One process, a communicator for every GPU that is visible. Only libcuda and libnccl: buffers and streams come from
the driver API, so that no CUDA runtime of the wanted version has to be there. NCCL's variables are left as they are.
Sums are of small whole numbers, so that they are exact in any order of adding.
"""

import array
import ctypes
import struct
import sys
import time
from typing import Any, Optional

from doctor.smoke.children.driver_api import CudaError, Driver, Gpu, loaded_path
from doctor.smoke.children.say import say

NCCL_INT32, NCCL_FLOAT32, NCCL_SUM = 2, 7, 0
BLOCK = 16381
"""Numbers in a block of the pattern; a prime, so that no shift by one of NCCL's chunks leaves it equal."""
CHECKED_BYTES = 32 << 20
PART = 4 << 20
TIMED_SECONDS, MOST_ROUNDS = 0.4, 40


class NcclError(Exception):
    """A call that did not return ncclSuccess."""

    def __init__(self, call: str, code: int, text: str, detail: str) -> None:
        super().__init__("%s: %s (%d)" % (call, text, code))
        self.call, self.code, self.text, self.detail = call, code, text, detail


class WrongSum(Exception):
    """The all-reduce succeeded and its sums are not right."""


class Nccl:
    """libnccl.so.2 from the place given."""

    def __init__(self, path: str) -> None:
        self.lib = ctypes.CDLL(path)
        self.lib.ncclGetErrorString.restype = ctypes.c_char_p

    def call(self, name: str, *arguments: Any) -> None:
        """One call; what it says about a failure comes with the error."""
        code = getattr(self.lib, name)(*arguments)
        if code:
            text = self.lib.ncclGetErrorString(ctypes.c_int(code)) or b""
            raise NcclError(name, code, text.decode("utf-8", "replace"), self.last_error())

    def last_error(self) -> str:
        """NCCL's own sentence about the last failure (from 2.13 on)."""
        try:
            function = self.lib.ncclGetLastError
        except AttributeError:
            return ""
        function.restype = ctypes.c_char_p
        return (function(None) or b"").decode("utf-8", "replace").strip()[:500]

    def version(self) -> str:
        """2.28.9 and the like; before 2.9 the number was written otherwise."""
        number = ctypes.c_int(0)
        self.call("ncclGetVersion", ctypes.byref(number))
        big = number.value
        if big < 10000:
            return "%d.%d.%d" % (big // 1000, big % 1000 // 100, big % 100)
        return "%d.%d.%d" % (big // 10000, big % 10000 // 100, big % 100)


class Ranks:
    """One rank per GPU, all of this process."""

    def __init__(self, nccl: Nccl, gpus: list[Gpu]) -> None:
        self.nccl = nccl
        self.gpus = gpus
        self.streams = []
        for gpu in gpus:
            gpu.use()
            self.streams.append(gpu.stream())
        self.communicators = (ctypes.c_void_p * len(gpus))()
        numbers = (ctypes.c_int * len(gpus))(*range(len(gpus)))
        nccl.call("ncclCommInitAll", self.communicators, ctypes.c_int(len(gpus)), numbers)

    def all_reduce(self, sources: list[int], targets: list[int], count: int, kind: int) -> None:
        """Enqueue one all-reduce on every rank."""
        self.nccl.call("ncclGroupStart")
        for rank, gpu in enumerate(self.gpus):
            gpu.use()
            self.nccl.call(
                "ncclAllReduce",
                ctypes.c_uint64(sources[rank]),
                ctypes.c_uint64(targets[rank]),
                ctypes.c_size_t(count),
                ctypes.c_int(kind),
                ctypes.c_int(NCCL_SUM),
                ctypes.c_void_p(self.communicators[rank]),
                self.streams[rank],
            )
        self.nccl.call("ncclGroupEnd")

    def wait(self) -> None:
        """Until every rank has its result."""
        for gpu, stream in zip(self.gpus, self.streams):
            gpu.use()
            gpu.driver.call("cuStreamSynchronize", stream)

    def close(self) -> None:
        """Take the communicators down."""
        for communicator in self.communicators:
            if communicator:
                self.nccl.call("ncclCommDestroy", ctypes.c_void_p(communicator))


def main(args: list[str]) -> None:
    """Load, start, add, time; memory and contexts are given back at the end."""
    gpus: list[Gpu] = []
    at = "load"
    say(step=at, state="start")
    try:
        nccl = Nccl(args[0])
        say(step=at, state="ok", lib=loaded_path("libnccl.so"), version=nccl.version())
        at = "contexts"
        driver = Driver()
        driver.init()
        for device in driver.devices():
            gpus.append(Gpu(driver, device))
        at = "communicators"
        say(step=at, state="start", gpus=len(gpus))
        started = time.perf_counter()
        ranks = Ranks(nccl, gpus)
        say(step=at, state="ok", ms=round((time.perf_counter() - started) * 1e3))
        at = "sums"
        say(step=at, state="start")
        say(step=at, state="ok", **sums(ranks))
        if len(gpus) > 1:
            at = "bandwidth"
            say(step=at, state="start")
            say(step=at, state="ok", **bandwidth(ranks, int(args[1])))
        at = "release"
        ranks.close()
    except OSError as error:
        say(step=at, state="failed", error=str(error)[:300])
    except CudaError as problem:
        say(step=at, state="failed", **problem.as_json())
    except NcclError as problem:
        say(
            step=at,
            state="failed",
            error=problem.text,
            call=problem.call,
            code=problem.code,
            log=problem.detail,
        )
    except WrongSum as problem:
        say(step=at, state="wrong", error=str(problem))
    problems = [problem for gpu in gpus for problem in gpu.close()]
    for left in problems:
        say(step="release", state="failed", **left.as_json())
    say(done=not problems)


def block(rank: Optional[int], ranks: int) -> bytes:
    """The pattern of one rank, or of the sum over all when `rank` is None."""
    numbers = range(BLOCK)
    if rank is None:
        add = ranks * (ranks - 1) // 2
        return array.array("i", [ranks * number + add for number in numbers]).tobytes()
    return array.array("i", [number + rank for number in numbers]).tobytes()


def tiled(pattern: bytes, size: int) -> bytes:
    """The pattern over and over, `size` bytes of it."""
    return (pattern * (size // len(pattern) + 1))[:size]


def sums(ranks: Ranks) -> dict[str, Any]:
    """One all-reduce of whole numbers; every byte on every rank is compared."""
    size, count = CHECKED_BYTES, len(ranks.gpus)
    sources, targets = buffers(ranks, size), buffers(ranks, size)
    for rank, gpu in enumerate(ranks.gpus):
        gpu.use()
        gpu.write(sources[rank], tiled(block(rank, count), size))
        gpu.wait()
    ranks.all_reduce(sources, targets, size // 4, NCCL_INT32)
    ranks.wait()
    wanted = tiled(block(None, count), size)
    for rank, gpu in enumerate(ranks.gpus):
        gpu.use()
        found = gpu.read(targets[rank], size)
        if found != wanted:
            place = next(i for i, (a, b) in enumerate(zip(found, wanted)) if a != b) // 4
            raise WrongSum("rank %d has a wrong sum at number %d of %d" % (rank, place, size // 4))
        gpu.free(sources[rank])
        gpu.free(targets[rank])
    return {"bytes": size, "ranks": count}


def bandwidth(ranks: Ranks, largest: int) -> dict[str, Any]:
    """Time all-reduces of the largest message that fits, in seconds a round; parts of the result are compared."""
    room = []
    for gpu in ranks.gpus:
        gpu.use()
        room.append(gpu.free_and_total()[0])
    size = min(largest, min(room) // 4) // PART * PART
    if size < PART:
        return {"bytes": 0, "note": "only %d bytes of GPU memory are free" % min(room)}
    sources, targets = buffers(ranks, size), buffers(ranks, size)
    for rank, gpu in enumerate(ranks.gpus):
        gpu.use()
        gpu.driver.call(
            "cuMemsetD32_v2",
            ctypes.c_uint64(sources[rank]),
            ctypes.c_uint32(struct.unpack("=I", struct.pack("=f", rank + 1))[0]),
            ctypes.c_size_t(size // 4),
        )
        gpu.wait()
    timed(ranks, sources, targets, size, 3)
    one = timed(ranks, sources, targets, size, 1)
    rounds = max(3, min(MOST_ROUNDS, int(TIMED_SECONDS / one)))
    seconds = timed(ranks, sources, targets, size, rounds) / rounds
    wanted = struct.pack("=f", sum(range(1, len(ranks.gpus) + 1))) * (PART // 4)
    for rank, gpu in enumerate(ranks.gpus):
        gpu.use()
        for place in (0, size // 2 // PART * PART, size - PART):
            if gpu.read(targets[rank] + place, PART) != wanted:
                raise WrongSum("rank %d has wrong sums near byte %d of %d" % (rank, place, size))
    return {"bytes": size, "rounds": rounds, "seconds": seconds, "algbw_gb_s": size / seconds / 1e9}


def timed(ranks: Ranks, sources: list[int], targets: list[int], size: int, rounds: int) -> float:
    """Wall seconds of some rounds, from the first enqueue to the last result."""
    started = time.perf_counter()
    for _ in range(rounds):
        ranks.all_reduce(sources, targets, size // 4, NCCL_FLOAT32)
    ranks.wait()
    return time.perf_counter() - started


def buffers(ranks: Ranks, size: int) -> list[int]:
    """One buffer per GPU."""
    found = []
    for gpu in ranks.gpus:
        gpu.use()
        found.append(gpu.allocate(size))
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
