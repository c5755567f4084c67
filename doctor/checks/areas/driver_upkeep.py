"""How the driver was installed and is kept: what is slow, fragile, or breaks at the next reboot or upgrade."""

from __future__ import annotations

import shlex

from doctor.checks.areas.advice import by_family
from doctor.checks.areas.driver_advice import rebuild_initramfs
from doctor.checks.areas.subject import LADDER, each, elsewhere, same
from doctor.checks.base import WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import FactUnknown, Known, known_or
from doctor.facts.tree import Facts

NODE_MODE_FOR_ALL = 0o006


@check(
    "driver.runfile-install",
    title="The driver came from packages",
    severity=WARN,
    reads=("host.hardware", "driver.runfile", "driver.package_name"),
    sources=("open-gpu-kernel-modules#47", "tesla-driver-installation-guide"),
    fix=Fix(
        "remove it with its own uninstaller, then install packages",
        command="sudo /usr/bin/nvidia-uninstall",
        disturbs="gpu",
        remedy="nvidia_driver",
    ),
)
def runfile_install(f: Facts, k: Knowledge) -> Result:
    """No trace of the .run installer, which package updates do not know of."""
    skip = elsewhere(f)
    if skip:
        return skip
    version = known_or(f.driver.runfile, None)
    if version is None:
        return passed("no /usr/bin/nvidia-uninstall: the .run installer was not used")
    package = known_or(f.driver.package_name, None)
    mixed = f", beside the package {package}: the two overwrite each other" if package else ""
    return failed(
        f"the .run installer put a driver here (version {version}){mixed}",
        want="one driver, from packages",
    )


@check(
    "driver.persistence-off",
    title="The driver stays initialised between programs",
    severity=WARN,
    needs=LADDER,
    reads=("host.hardware", "nvml.gpus"),
    sources=("driver-persistence-overview", "driver-persistence-background"),
    fix=Fix(
        "start the persistence daemon now and at boot",
        command="sudo systemctl enable --now nvidia-persistenced",
        remedy="persistence",
    ),
)
def persistence_off(f: Facts, k: Knowledge) -> Result:
    """Persistence mode is on for every GPU; without it each first program waits for initialisation."""
    skip = elsewhere(f)
    if skip:
        return skip
    return each(
        f,
        "persistence",
        lambda _, on: None if on else "persistence mode is off",
        good=lambda _: "persistence mode on",
        want="persistence mode on",
    )


@check(
    "driver.version-skew",
    title="The next load of the driver brings the same version",
    severity=WARN,
    needs=("driver.library-mismatch", "driver.not-loaded"),
    reads=(
        "host.hardware",
        "host.os_release",
        "driver.loaded",
        "driver.package",
        "driver.disk",
        "driver.disk_next",
    ),
    sources=("ubuntu-packaging-nvidia-driver#3", "nvidia-ubuntu-driver-guide#4"),
    fix=Fix(
        "bring package, module and libraries to one version",
        disturbs="reboot",
        remedy="nvidia_driver",
    ),
)
def version_skew(f: Facts, k: Knowledge) -> Result:
    """Package, module on disk and the next boot's module agree with what is loaded."""
    skip = elsewhere(f)
    if skip:
        return skip
    loaded = f.driver.loaded.value
    facts = {
        "package": f.driver.package,
        "module on disk": f.driver.disk,
        "module of the next boot": f.driver.disk_next,
    }
    known = {name: fact.value for name, fact in facts.items() if isinstance(fact, Known)}
    wrong = {name: version for name, version in known.items() if not same(version, loaded)}
    if wrong:
        told = ", ".join(f"{name} {version}" for name, version in wrong.items())
        return failed(
            f"loaded is {loaded}, {told}: the next reboot or reload changes the driver",
            want=f"{loaded} everywhere, or a planned reboot",
            say="finish the upgrade with a reboot, then hold the driver packages",
            command=by_family(
                f,
                debian="sudo dkms autoinstall && sudo update-initramfs -u -k all && sudo reboot",
                rhel="sudo dkms autoinstall && sudo dracut -f --regenerate-all && sudo reboot",
            ),
        )
    for fact in facts.values():
        known_or(fact, None)
    if not known:
        return skipped("neither package nor module on disk is here to compare with")
    compared = ", ".join(f"{name} {version}" for name, version in known.items())
    return passed(f"loaded {loaded}; {compared}: one version")


@check(
    "driver.firmware-mismatch",
    title="The GPU's firmware is the driver's",
    severity=WARN,
    needs=("driver.not-loaded",),
    reads=("host.hardware", "driver.firmware", "driver.loaded"),
    sources=("open-gpu-kernel-modules-readme",),
    fix=Fix(
        "install firmware and modules of one version, then reboot",
        command="sudo reboot",
        disturbs="reboot",
        remedy="nvidia_driver",
    ),
)
def firmware_mismatch(f: Facts, k: Knowledge) -> Result:
    """GSP firmware in use has the loaded module's version."""
    skip = elsewhere(f)
    if skip:
        return skip
    loaded = f.driver.loaded.value
    firmware = known_or(f.driver.firmware, None)
    if firmware is None:
        return skipped("the driver uses no GSP firmware")
    wrong = [version for version in firmware.split() if not same(version, loaded)]
    if wrong:
        return failed(
            f"firmware {', '.join(wrong)} under module {loaded}", want=f"firmware {loaded}"
        )
    return passed(f"firmware {firmware}, module {loaded}: one version")


@check(
    "driver.hmm",
    title="nvidia_uvm got its memory region from the kernel",
    severity=WARN,
    reads=("host.hardware", "host.os_release", "kernel.driver_log", "kernel.modprobe_options"),
    sources=("cuda-13.2.2-release-notes",),
    fix=Fix("load nvidia_uvm without heterogeneous memory management", disturbs="gpu"),
)
def hmm(f: Facts, k: Knowledge) -> Result:
    """The kernel log lacks the failure that KASLR and HMM cause together."""
    skip = elsewhere(f)
    if skip:
        return skip
    row = k.matrix.statement("module_rules", "module.hmm-kaslr")
    if row is None or row.message is None or row.setting is None:
        raise FactUnknown("no row describes the fault", "module_rules")
    module, _, option = row.setting.partition(" ")
    options = known_or(f.kernel.modprobe_options, {})
    if option in options.get(module, ""):
        return passed(f"modprobe.d sets {row.setting}", rows=[row])
    needle = row.message.split("()")[0]
    lines = [line for line in known_or(f.kernel.driver_log, []) if needle in line]
    if not lines:
        return passed(f"no {needle} failure in the kernel log", rows=[row])
    return failed(
        f"the kernel log says: {lines[-1]}; CUDA may not start",
        want=row.setting,
        command=f"echo {shlex.quote(f'options {row.setting}')} | sudo tee /etc/modprobe.d/nvidia-uvm-hmm.conf && "
        f"{rebuild_initramfs(f)} && sudo reboot",
        evidence=[seen("kernel.driver_log", lines[-2:])],
        rows=[row],
    )


@check(
    "driver.leftovers",
    title="No libraries of another driver lie beside this one's",
    severity=WARN,
    needs=("driver.library-mismatch", "driver.not-installed"),
    reads=("host.hardware", "driver.libraries", "driver.library"),
    sources=("open-gpu-kernel-modules#47", "tesla-driver-installation-guide"),
    fix=Fix("remove the old files and refresh the loader's cache"),
)
def leftovers(f: Facts, k: Knowledge) -> Result:
    """Every driver-kind libcuda and libnvidia-ml in the known folders has the driver's version."""
    skip = elsewhere(f)
    if skip:
        return skip
    library = f.driver.library.value
    own = [item for item in f.driver.libraries.value if item.kind == "driver" and item.version]
    old = [item for item in own if item.version and not same(item.version, library)]
    if not old:
        return passed(f"{len(own)} driver libraries in the known folders, all {library}")
    paths = [item.real for item in old]
    return failed(
        f"libraries of another driver beside {library}: {', '.join(paths)}",
        want=f"only {library}",
        command=f"sudo rm {shlex.join(paths)} && sudo ldconfig",
        evidence=[seen("driver.libraries", paths)],
    )


@check(
    "driver.params",
    title="Module parameters leave the GPUs usable",
    severity=WARN,
    needs=("driver.not-loaded",),
    reads=("host.hardware", "driver.params"),
    sources=("open-module-registry-keys",),
    fix=Fix("take the option out of modprobe.d, rebuild the initramfs, reboot", disturbs="reboot"),
)
def params(f: Facts, k: Knowledge) -> Result:
    """No GPU is excluded, NVLink and MSI are on, device files are open to users."""
    skip = elsewhere(f)
    if skip:
        return skip
    values = f.driver.params.value
    problems = []
    for name in ("ExcludedGpus", "GpuBlacklist"):
        if values.get(name):
            problems.append((name, f"{name} hides {values[name]}"))
    if values.get("NvLinkDisable", "0") != "0":
        problems.append(("NvLinkDisable", "NvLinkDisable turns NVLink off"))
    if values.get("EnableMSI", "1") == "0":
        problems.append(("EnableMSI", "EnableMSI=0 turns message-signalled interrupts off"))
    mode = values.get("DeviceFileMode", "")
    if mode.isdigit() and int(mode) & NODE_MODE_FOR_ALL != NODE_MODE_FOR_ALL:
        problems.append(("DeviceFileMode", f"DeviceFileMode {int(mode):04o} keeps users out"))
    if not problems:
        return passed(
            f"{len(values)} parameters read: no GPU excluded, NVLink and MSI on, nodes open to users"
        )
    return failed(
        "; ".join(text for _, text in problems),
        want="the driver's own values",
        command="grep -rn NVreg_ /etc/modprobe.d /usr/lib/modprobe.d /proc/cmdline",
        evidence=[seen(f"driver.params[{name}]", values[name]) for name, _ in problems],
    )
