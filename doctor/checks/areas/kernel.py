"""What the kernel does to a GPU driver: whether its module can be built, signed and loaded, now and after the next boot."""

from __future__ import annotations

from doctor.checks.areas.advice import build_module, by_family, install, install_headers
from doctor.checks.areas.kernel_module import BUILT, dkms_entries, files_of, is_built
from doctor.checks.areas.subject import elsewhere
from doctor.checks.base import ERROR, INFO, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.kernel import ModuleFile
from doctor.facts.model import FactUnknown, Known, known_or
from doctor.facts.tree import Facts

MACHINE = ("host.hardware", "host.container", "host.os_release")


@check(
    "kernel.headers-missing",
    title="DKMS has the headers of the running kernel",
    severity=ERROR,
    reads=(*MACHINE, "kernel.running", "kernel.headers", "kernel.dkms", "kernel.nvidia_files"),
    sources=("tesla-driver-installation-guide", "github-dell-dkms", "driver-guide-oracle-linux"),
    fix=Fix(
        "install the headers of exactly this kernel, then let DKMS build", remedy="kernel_headers"
    ),
)
def headers_missing(f: Facts, k: Knowledge) -> Result:
    """Without headers DKMS builds nothing; a module that is there already needs none today."""
    skip = elsewhere(f)
    if skip:
        return skip
    if not dkms_entries(f):
        return skipped("DKMS does not build the driver's module here")
    running = f.kernel.running.value
    headers = known_or(f.kernel.headers, None)
    if headers is not None:
        return passed(f"headers of {running}: {headers}")
    if is_built(f, running):
        return passed(
            f"kernel {running} has its nvidia module; its headers are not needed for it now"
        )
    return failed(
        f"kernel {running} has no headers, so DKMS built no nvidia module for it",
        want=f"/lib/modules/{running}/build leads to the headers",
        command=f"{install_headers(f, running)} && {build_module(running)}",
    )


@check(
    "kernel.headers-gone",
    title="The driver can be rebuilt for the running kernel",
    severity=WARN,
    needs=("kernel.headers-missing",),
    reads=(*MACHINE, "kernel.running", "kernel.headers", "kernel.dkms", "kernel.nvidia_files"),
    sources=("github-dell-dkms",),
    fix=Fix("install the headers of this kernel", remedy="kernel_headers"),
)
def headers_gone(f: Facts, k: Knowledge) -> Result:
    """The module works now; the next update of the driver could not be built."""
    skip = elsewhere(f)
    if skip:
        return skip
    if not dkms_entries(f):
        return skipped("DKMS does not build the driver's module here")
    running = f.kernel.running.value
    headers = known_or(f.kernel.headers, None)
    if headers is not None:
        return passed(f"headers of {running}: {headers}")
    return failed(
        f"kernel {running} has no headers: the next driver update cannot be built for it",
        want="headers beside the kernel for as long as DKMS builds its modules",
        command=install_headers(f, running),
    )


@check(
    "kernel.compiler-mismatch",
    title="The compiler that built the kernel is installed",
    severity=ERROR,
    needs=("kernel.headers-missing",),
    reads=(
        *MACHINE,
        "kernel.running",
        "kernel.compiler",
        "kernel.gcc",
        "kernel.compilers",
        "kernel.dkms",
        "kernel.nvidia_files",
    ),
    sources=("driver-guide-oracle-linux", "driver-guide-r615-oracle-linux"),
    fix=Fix("install the compiler that built the kernel and build again", remedy="kernel_headers"),
)
def compiler_mismatch(f: Facts, k: Knowledge) -> Result:
    """A module that DKMS could not build, and no gcc of the kernel's major version."""
    skip = elsewhere(f)
    if skip:
        return skip
    if not dkms_entries(f):
        return skipped("DKMS does not build the driver's module here")
    name, _, version = f.kernel.compiler.value.partition(" ")
    if name != "gcc":
        return skipped(f"the kernel was built with {name} {version}")
    major = version.partition(".")[0]
    default = known_or(f.kernel.gcc, None)
    have = sorted(
        {*known_or(f.kernel.compilers, []), *([default.partition(".")[0]] if default else [])}
    )
    if major in have:
        return passed(f"kernel built with gcc {version}; gcc {major} is installed")
    running = f.kernel.running.value
    here = f"only gcc {', '.join(have)} is installed" if have else "no gcc is installed"
    if is_built(f, running):
        return passed(
            f"kernel built with gcc {version}, {here}, and its module was built all the same"
        )
    return failed(
        f"kernel {running} was built with gcc {version}, {here}, and DKMS built no nvidia module",
        want=f"gcc {major}",
        command=f"{_install_gcc(f, major)} && {build_module(running)}",
    )


def _install_gcc(f: Facts, major: str) -> str:
    plain = known_or(f.kernel.gcc, None) is None
    return by_family(
        f,
        debian=install(f, f"gcc-{major}", "make"),
        rhel=install(f, "gcc", "make") if plain else install(f, f"gcc-toolset-{major}"),
    )


@check(
    "kernel.dkms-failed",
    title="DKMS built the nvidia module for the running kernel",
    severity=ERROR,
    needs=("kernel.headers-missing", "kernel.compiler-mismatch"),
    reads=(*MACHINE, "kernel.running", "kernel.dkms", "kernel.dkms_log", "kernel.nvidia_files"),
    sources=("github-dell-dkms",),
    fix=Fix("read why the build failed, then build again", remedy="nvidia_driver"),
)
def dkms_failed(f: Facts, k: Knowledge) -> Result:
    """What DKMS has added it has also built for uname -r, or the module is there from elsewhere."""
    skip = elsewhere(f)
    if skip:
        return skip
    rows = dkms_entries(f)
    if not rows:
        return skipped("DKMS does not build the driver's module here")
    running = f.kernel.running.value
    mine = [row for row in rows if row.kernel == running and row.state in BUILT]
    if mine:
        return passed(f"DKMS: nvidia {mine[0].version} {mine[0].state} for {running}")
    if files_of(f, running):
        return passed(f"kernel {running} has {files_of(f, running)[0].path}, not from DKMS")
    row = next((row for row in rows if row.state == "broken"), rows[0])
    log = f.kernel.dkms_log.value if isinstance(f.kernel.dkms_log, Known) else None
    reason = f": {_last_error(log)}" if log else ""
    state = "lost its source" if row.state == "broken" else f"is {row.state}, not built,"
    return failed(
        f"DKMS: nvidia {row.version} {state} for {running}{reason}",
        want=f"nvidia {row.version} installed for {running}",
        command=build_module(running),
        evidence=[seen("kernel.dkms_log", log[-600:])] if log else [],
    )


def _last_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or "cannot" in line.lower()]
    return (telling or lines)[0 if telling else -1][:200]


def _next_and_running(f: Facts) -> list[ModuleFile]:
    """nvidia.ko of the kernels that matter; FactUnknown where none of them could be opened."""
    kernels = {f.kernel.running.value, known_or(f.kernel.next_boot, "")}
    found = [row for row in known_or(f.kernel.nvidia_files, []) if row.kernel in kernels]
    if found and all(row.version is None for row in found):
        raise FactUnknown("modinfo could not open the module", "kernel.nvidia_files")
    return [row for row in found if row.version is not None]


@check(
    "kernel.module-unsigned",
    title="With Secure Boot on, the nvidia module is signed",
    severity=WARN,
    needs=("driver.module-refused",),
    reads=(
        *MACHINE,
        "kernel.secure_boot",
        "kernel.running",
        "kernel.next_boot",
        "kernel.nvidia_files",
    ),
    sources=("kernel-lockdown-manual", "gpu-operator#1726"),
    fix=Fix(
        "install modules that the distribution signed, or sign with a key and enrol it at the console",
        disturbs="reboot",
    ),
)
def module_unsigned(f: Facts, k: Knowledge) -> Result:
    """Secure Boot refuses a module without a signature the next time it is loaded."""
    skip = elsewhere(f)
    if skip:
        return skip
    if not f.kernel.secure_boot.value:
        return passed("Secure Boot is off: modules need no signature")
    rows = _next_and_running(f)
    if not rows:
        return skipped("no nvidia module is installed")
    unsigned = [row for row in rows if not row.signer]
    if not unsigned:
        return passed(f"Secure Boot is on; {rows[0].path} is signed by {rows[0].signer}")
    return failed(
        f"Secure Boot is on and {unsigned[0].path} is not signed: the kernel will refuse it",
        want="a module signed by a key in the firmware's or the machine owner's list",
        command=by_family(
            f,
            debian="sudo update-secureboot-policy --new-key && sudo mokutil --import /var/lib/shim-signed/mok/MOK.der",
            rhel="sudo mokutil --import /var/lib/dkms/mok.pub",
        ),
        evidence=[seen("kernel.nvidia_files.path", row.path) for row in unsigned],
    )


@check(
    "kernel.mok-pending",
    title="No machine owner key waits to be enrolled",
    severity=INFO,
    reads=(*MACHINE, "kernel.mok_pending"),
    sources=("gpu-operator#1726",),
    fix=Fix(
        "reboot with someone at the console: the blue MOK screen asks for the password before the kernel starts",
        command="sudo mokutil --list-new",
        disturbs="reboot",
    ),
)
def mok_pending(f: Facts, k: Knowledge) -> Result:
    """A key that was imported counts only after somebody confirmed it at the console."""
    skip = elsewhere(f)
    if skip:
        return skip
    if not f.kernel.mok_pending.value:
        return passed("no key waits for enrolment")
    return failed(
        "a machine owner key was imported and is not enrolled: the next boot stops at the MOK screen for ten seconds",
        want="the key enrolled, or its request taken back with mokutil --revoke-import",
    )


@check(
    "kernel.lockdown",
    title="Kernel lockdown leaves the nvidia module loadable",
    severity=WARN,
    needs=("driver.module-refused",),
    reads=(
        *MACHINE,
        "kernel.lockdown",
        "kernel.secure_boot",
        "kernel.running",
        "kernel.next_boot",
        "kernel.nvidia_files",
    ),
    sources=("kernel-lockdown-manual",),
    fix=Fix("take lockdown= off the kernel command line, or sign the module", disturbs="reboot"),
)
def lockdown(f: Facts, k: Knowledge) -> Result:
    """Lockdown refuses unsigned modules; with Secure Boot that is another check's."""
    skip = elsewhere(f)
    if skip:
        return skip
    mode = f.kernel.lockdown.value
    if mode == "none":
        return passed("lockdown: none")
    if f.kernel.secure_boot.value:
        return passed(f"lockdown: {mode}, as Secure Boot sets it")
    unsigned = [row for row in _next_and_running(f) if not row.signer]
    if not unsigned:
        return passed(f"lockdown: {mode}, and no nvidia module is unsigned")
    return failed(
        f"lockdown is {mode} without Secure Boot, and {unsigned[0].path} is not signed: the kernel will refuse it",
        want="lockdown none, or a signed module",
        command=by_family(
            f,
            debian="sudo sed -i 's/ *lockdown=[a-z]*//' /etc/default/grub && sudo update-grub",
            rhel="sudo grubby --update-kernel=ALL --remove-args=lockdown",
        ),
    )
