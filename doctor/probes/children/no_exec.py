"""A look must not change the host: libcuda and NVML start nvidia-modprobe, load modules and make device nodes.

Where a node is missing or is not a device, they run nvidia-modprobe, or as root remove what is there and make
the node themselves. A seccomp filter in the disposable child makes these calls fail with ENOENT, so that the
look sees the host as it is and leaves it so. ENOENT and not EPERM: cuInit of driver 580.159.04 unlinks a
path that need not be there, and answers 304 where that fails for another reason (measured, 2026-11-30).
"""

import ctypes
import os
import struct

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
ARCH_X86_64, ARCH_AARCH64 = 0xC000003E, 0xC00000B7
"""AUDIT_ARCH_* of linux/audit.h."""
FORBIDDEN = {
    "execve": (59, 221),
    "execveat": (322, 281),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
}
"""System call -> its number on x86-64 and on aarch64 (asm/unistd.h)."""


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def forbid_changes() -> bool:
    """Whether this process can no longer start programs, load modules or replace nodes; False where there is no such filter."""
    machine = os.uname().machine
    if machine not in ("x86_64", "aarch64"):
        return False
    column = 0 if machine == "x86_64" else 1
    numbers = [
        number for row in FORBIDDEN.values() for number in row[column : column + 1] if number
    ]
    code = filter_program((ARCH_X86_64, ARCH_AARCH64)[column], sorted(numbers))
    raw = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in code))
    program = _Program(len(code), ctypes.addressof(raw))
    zero = ctypes.c_ulong(0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero) != 0:
        return False
    mode = ctypes.c_ulong(SECCOMP_MODE_FILTER)
    return bool(libc.prctl(PR_SET_SECCOMP, mode, ctypes.byref(program), zero, zero) == 0)


def filter_program(arch: int, numbers: "list[int]") -> "list[tuple[int, int, int, int]]":
    """The BPF program: another ABI and other calls pass, the numbers given fail with ENOENT."""
    allow, refuse = len(numbers) + 3, len(numbers) + 4
    code = [
        (0x20, 0, 0, 4),  # load the ABI
        (0x15, 0, allow - 2, arch),
        (0x20, 0, 0, 0),  # load the call's number
    ]
    code += [(0x15, refuse - place - 1, 0, number) for place, number in enumerate(numbers, start=3)]
    return code + [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050002)]  # allow, ENOENT
