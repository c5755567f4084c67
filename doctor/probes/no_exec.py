"""A look must not load modules: libcuda and NVML start nvidia-modprobe when a node is missing.

A seccomp filter in the disposable child makes execve fail with EPERM, so the look sees the host as it is.
"""

import ctypes
import platform
import struct

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
_EXEC = {"x86_64": (0xC000003E, 59, 322), "aarch64": (0xC00000B7, 221, 281)}
"""AUDIT_ARCH and the numbers of execve and execveat per machine (Linux uapi: linux/audit.h, asm/unistd.h)."""


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def forbid_exec() -> bool:
    """Whether this process can no longer start programs; False where the machine or kernel has no such filter."""
    numbers = _EXEC.get(platform.machine())
    if numbers is None:
        return False
    arch, execve, execveat = numbers
    code = [
        (0x20, 0, 0, 4),  # load arch
        (0x15, 0, 4, arch),  # another ABI: allow
        (0x20, 0, 0, 0),  # load the call's number
        (0x15, 1, 0, execve),
        (0x15, 0, 1, execveat),
        (0x06, 0, 0, 0x00050001),  # return EPERM
        (0x06, 0, 0, 0x7FFF0000),  # allow
    ]
    raw = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in code))
    program = _Program(len(code), ctypes.addressof(raw))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0)
