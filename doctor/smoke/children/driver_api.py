"""The calls of the CUDA driver API that the rungs need, through ctypes.

ctypes and not cuda-bindings: a child must run under any Python 3.9 or newer, also one inside an image or of an
engine, without installing wheels into it; twenty calls do not earn a dependency that is bound to one Python ABI
and one CUDA major. The names with a version (cuMemAlloc_v2) are what libcuda has exported since CUDA 4, so that
every supported driver has them.
"""

import ctypes
from typing import Any, Optional

CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 5, 6
ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR = 75, 76
LOG_BYTES = 4096

PTX = b"""
.version 6.0
.target %s
.address_size 64
.visible .entry doctor_sum(.param .u64 p_in, .param .u64 p_out, .param .u64 p_total, .param .u32 p_n)
{
  .reg .pred %%p<2>;
  .reg .b32 %%r<8>;
  .reg .b64 %%d<11>;
  ld.param.u64 %%d1, [p_in];
  ld.param.u64 %%d2, [p_out];
  ld.param.u64 %%d3, [p_total];
  ld.param.u32 %%r1, [p_n];
  mov.u32 %%r2, %%ctaid.x;
  mov.u32 %%r3, %%ntid.x;
  mov.u32 %%r4, %%tid.x;
  mad.lo.u32 %%r5, %%r2, %%r3, %%r4;
  setp.ge.u32 %%p1, %%r5, %%r1;
  @%%p1 bra DONE;
  cvta.to.global.u64 %%d4, %%d1;
  mul.wide.u32 %%d5, %%r5, 4;
  add.u64 %%d6, %%d4, %%d5;
  ld.global.u32 %%r6, [%%d6];
  mad.lo.u32 %%r7, %%r6, 0x9E3779B1, %%r5;
  cvta.to.global.u64 %%d7, %%d2;
  add.u64 %%d8, %%d7, %%d5;
  st.global.u32 [%%d8], %%r7;
  cvt.u64.u32 %%d9, %%r7;
  cvta.to.global.u64 %%d10, %%d3;
  red.global.add.u64 [%%d10], %%d9;
DONE:
  ret;
}
"""
"""out[i] = in[i] * FACTOR + i, and the sum of all out[i] is added to total. PTX ISA 6.0 is CUDA 9.0's, so that
the JIT compiler of every driver since R384 reads it."""
FACTOR = 0x9E3779B1
THREADS = 256


NAMES = {
    34: "CUDA_ERROR_STUB_LIBRARY",
    100: "CUDA_ERROR_NO_DEVICE",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
    999: "CUDA_ERROR_UNKNOWN",
}
"""Of cuda.h, for a library that does not name its own errors: the toolkit's stub answers nothing."""


class CudaError(Exception):
    """A call that did not return CUDA_SUCCESS, by its names."""

    def __init__(self, call: str, code: int, name: str, log: str = "") -> None:
        super().__init__("%s: %s (%d)" % (call, name, code))
        self.call = call
        self.code = code
        self.name = name
        self.log = log

    def as_json(self) -> dict[str, Any]:
        """The keys of an answer about a failed call."""
        said: dict[str, Any] = {"call": self.call, "code": self.code, "error": self.name}
        if self.log:
            said["log"] = self.log
        return said


class Driver:
    """libcuda.so.1 as a program would get it."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: Any) -> None:
        """One call; anything but CUDA_SUCCESS is raised by name."""
        try:
            function = getattr(self.lib, name)
        except AttributeError:
            raise CudaError(name, -1, "not exported by this libcuda") from None
        code = function(*arguments)
        if code:
            raise CudaError(name, code, self.name_of(code))

    def name_of(self, code: int) -> str:
        """CUDA_ERROR_... as the library names it."""
        text = ctypes.c_char_p()
        try:
            known = self.lib.cuGetErrorName(ctypes.c_int(code), ctypes.byref(text)) == 0
        except AttributeError:
            known = False
        if known and text.value:
            return text.value.decode("ascii", "replace")
        return NAMES.get(code, "error %d" % code)

    def number(self, name: str, *arguments: Any) -> int:
        """The int that a call writes to its first argument."""
        answer = ctypes.c_int(0)
        self.call(name, ctypes.byref(answer), *arguments)
        return answer.value

    def init(self) -> None:
        """Run cuInit(0)."""
        self.call("cuInit", ctypes.c_uint(0))

    def devices(self) -> list[int]:
        """Handles of the GPUs that this process may see."""
        return [
            self.number("cuDeviceGet", ctypes.c_int(index))
            for index in range(self.number("cuDeviceGetCount"))
        ]

    def capability(self, device: int) -> str:
        """The compute capability, for example 9.0."""
        major, minor = (
            self.number("cuDeviceGetAttribute", ctypes.c_int(which), ctypes.c_int(device))
            for which in (ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR)
        )
        return "%d.%d" % (major, minor)

    def text(self, name: str, device: int) -> str:
        """The text that a call such as cuDeviceGetName writes."""
        buffer = ctypes.create_string_buffer(256)
        self.call(name, buffer, ctypes.c_int(256), ctypes.c_int(device))
        return buffer.value.decode("utf-8", "replace")

    def pci(self, device: int) -> str:
        """The PCI address as the driver writes it, for example 0000:04:00.0."""
        buffer = ctypes.create_string_buffer(32)
        self.call("cuDeviceGetPCIBusId", buffer, ctypes.c_int(32), ctypes.c_int(device))
        return buffer.value.decode("ascii", "replace").lower()

    def uuid(self, device: int) -> Optional[str]:
        """GPU-... or MIG-... as NVML writes it; None where the library does not say."""
        raw = (ctypes.c_ubyte * 16)()
        for name, start in (("cuDeviceGetUuid_v2", "GPU-"), ("cuDeviceGetUuid", "GPU-")):
            try:
                self.call(name, ctypes.byref(raw), ctypes.c_int(device))
            except CudaError:
                continue
            text = bytes(raw).hex()
            cut = (text[:8], text[8:12], text[12:16], text[16:20], text[20:])
            return start + "-".join(cut)
        return None


class Gpu:
    """The primary context of one GPU, which is what engines and NCCL use; `close` gives everything back."""

    def __init__(self, driver: Driver, device: int) -> None:
        self.driver = driver
        self.device = device
        self.context = ctypes.c_void_p()
        self.modules: list[ctypes.c_void_p] = []
        self.memory: list[int] = []
        self.streams: list[ctypes.c_void_p] = []
        driver.call(
            "cuDevicePrimaryCtxRetain", ctypes.byref(self.context), ctypes.c_int(self.device)
        )
        self.use()

    def use(self) -> None:
        """Make the calls that follow go to this GPU."""
        self.driver.call("cuCtxSetCurrent", self.context)

    def free_and_total(self) -> tuple[int, int]:
        """Bytes of memory."""
        free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
        self.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> int:
        """An address of `size` bytes on the GPU, filled with a byte that no pattern has for long."""
        address = ctypes.c_uint64(0)
        self.driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.memory.append(address.value)
        self.fill(address.value, size)
        return address.value

    def fill(self, address: int, size: int, byte: int = 0xA5) -> None:
        """Set every byte."""
        self.driver.call(
            "cuMemsetD8_v2", ctypes.c_uint64(address), ctypes.c_ubyte(byte), ctypes.c_size_t(size)
        )

    def free(self, address: int) -> None:
        """Give memory back early."""
        self.memory.remove(address)
        self.driver.call("cuMemFree_v2", ctypes.c_uint64(address))

    def write(self, address: int, data: bytes) -> None:
        """Host to GPU."""
        self.driver.call(
            "cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(len(data))
        )

    def read(self, address: int, size: int) -> bytes:
        """GPU to host."""
        buffer = ctypes.create_string_buffer(size)
        self.driver.call("cuMemcpyDtoH_v2", buffer, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return buffer.raw

    def wait(self) -> None:
        """Until everything that was started has ended, or failed."""
        self.driver.call("cuCtxSynchronize")

    def stream(self) -> ctypes.c_void_p:
        """A stream of its own."""
        stream = ctypes.c_void_p()
        self.driver.call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(1))
        self.streams.append(stream)
        return stream

    def kernel(self, target: str) -> ctypes.c_void_p:
        """Compile the PTX for this GPU and get its kernel; the compiler's log comes with the error."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        log = ctypes.create_string_buffer(LOG_BYTES)
        options = (ctypes.c_int * 2)(CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), LOG_BYTES)
        try:
            self.driver.call(
                "cuModuleLoadDataEx",
                ctypes.byref(module),
                PTX % target.encode("ascii"),
                ctypes.c_uint(2),
                options,
                values,
            )
        except CudaError as problem:
            problem.log = log.value.decode("utf-8", "replace").strip()[:1000]
            raise
        self.modules.append(module)
        self.driver.call("cuModuleGetFunction", ctypes.byref(function), module, b"doctor_sum")
        return function

    def launch(
        self, function: ctypes.c_void_p, source: int, out: int, total: int, count: int
    ) -> None:
        """Run the kernel over `count` numbers and wait for it."""
        arguments: list[Any] = [
            ctypes.c_uint64(source),
            ctypes.c_uint64(out),
            ctypes.c_uint64(total),
            ctypes.c_uint32(count),
        ]
        pointers = (ctypes.c_void_p * 4)(*[ctypes.addressof(item) for item in arguments])
        one = ctypes.c_uint(1)
        self.driver.call(
            "cuLaunchKernel",
            function,
            ctypes.c_uint((count + THREADS - 1) // THREADS),
            one,
            one,
            ctypes.c_uint(THREADS),
            one,
            one,
            ctypes.c_uint(0),
            None,
            pointers,
            None,
        )
        self.wait()

    def close(self) -> list[CudaError]:
        """Free memory, modules, streams and context; what could not be freed is returned, not hidden."""
        problems: list[CudaError] = []

        def attempt(name: str, *arguments: Any) -> None:
            try:
                self.driver.call(name, *arguments)
            except CudaError as problem:
                problems.append(problem)

        attempt("cuCtxSetCurrent", self.context)
        for stream in self.streams:
            attempt("cuStreamDestroy_v2", stream)
        for address in self.memory:
            attempt("cuMemFree_v2", ctypes.c_uint64(address))
        for module in self.modules:
            attempt("cuModuleUnload", module)
        attempt("cuCtxSetCurrent", None)
        attempt("cuDevicePrimaryCtxRelease_v2", ctypes.c_int(self.device))
        self.streams, self.memory, self.modules = [], [], []
        return problems


def target_of(capability: str) -> str:
    """The PTX target that every GPU of that capability and every driver for it takes."""
    return "sm_50" if int(capability.split(".")[0]) >= 5 else "sm_30"


def loaded_path(name: str) -> str:
    """The file that the loader chose for a library, as the kernel names it."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "/" + name in line:
                return line.split(None, 5)[5].strip()
    return ""
