"""What probes ask for and no simulated host has, with the reason. A test finds whatever is neither written nor listed here."""

from __future__ import annotations

from fnmatch import fnmatchcase

_EMPTY = "a folder for drop-ins, in which a simulated host has none"
_MERGED = "the merged /usr: files are written under their real names only"
_NOT_DESCRIBED = "no description says such a thing"

ABSENT: tuple[tuple[str, str], ...] = (
    # folders that hold nothing
    ("/etc/modules-load.d", _EMPTY),
    ("/etc/modules-load.d/*", _EMPTY),
    ("/dev/shm/*", "what running programs keep there; a description says orphans"),
    ("grep -hoE -s dev/shm/*", "asked only of a host whose /dev/shm holds files"),
    ("/etc/modules", "Debian's list of modules, empty by default"),
    ("/run/modprobe.d", _EMPTY),
    ("/run/modules-load.d", _EMPTY),
    ("/lib/modprobe.d", _EMPTY),
    ("/usr/lib/modprobe.d", _EMPTY),
    ("/usr/lib/modprobe.d/*", "the distribution's own options, none about NVIDIA"),
    ("/lib/modules-load.d", _EMPTY),
    ("/usr/lib/modules-load.d", _EMPTY),
    ("/usr/local/lib/modprobe.d", _EMPTY),
    ("/usr/local/lib/modules-load.d", _EMPTY),
    ("/etc/security/limits.d", _EMPTY),
    ("/etc/containerd", "containerd without a configuration of its own"),
    ("/etc/containerd/conf.d", _EMPTY),
    ("/etc/systemd/logind.conf.d", _EMPTY),
    ("/run/systemd/logind.conf.d", _EMPTY),
    ("/usr/lib/systemd/logind.conf", "the administrator's file in /etc is the one that is written"),
    ("/usr/lib/systemd/logind.conf.d", _EMPTY),
    ("/etc/default/grub.d", _EMPTY),
    ("/etc/dnf/plugins", _EMPTY),
    ("/etc/yum", "dnf reads it for compatibility; holds are written in dnf's own file"),
    ("/etc/yum/pluginconf.d/*", "dnf reads it for compatibility; holds are written in dnf's own"),
    ("/etc/dnf/versionlock.toml", "dnf 5's file; holds are written in the form both versions read"),
    ("/etc/apt/preferences", "pins are written under preferences.d"),
    ("/etc/apt/apt.conf", "settings are written under apt.conf.d"),
    ("/etc/apt/trusted.gpg", "keyrings lie where signed-by names them"),
    ("/etc/apt/trusted.gpg.d", "keyrings lie where signed-by names them"),
    ("/etc/zypp/repos.d", "repositories of zypper are not described"),
    ("/etc/docker", "Docker without daemon.json"),
    ("/etc/nvidia-container-runtime", "no container toolkit"),
    # the merged /usr and programs that nobody installed
    ("/bin", _MERGED),
    ("/sbin", _MERGED),
    ("/lib64", _MERGED),
    ("/usr/sbin", "an empty folder where nothing is installed"),
    ("/usr/local/bin", "an empty folder where nothing is installed"),
    ("/usr/local/sbin", "an empty folder where nothing is installed"),
    ("/usr/local/lib", "an empty folder where nothing is installed"),
    ("/usr/local/lib/python*", "nothing is installed with the system's pip"),
    ("/usr/local/lib64", "an empty folder where nothing is installed"),
    ("/usr/local/nvidia", "libraries that Kubernetes mounts there are not described"),
    ("/usr/local/version.*", "a toolkit has a folder of its own"),
    ("/usr/local/conda-meta", _NOT_DESCRIBED),
    ("/usr/conda-meta", _NOT_DESCRIBED),
    ("/usr/local/pyvenv.cfg", "the system's Python is no virtual environment"),
    ("/usr/pyvenv.cfg", "the system's Python is no virtual environment"),
    ("*/bin/ninja", _NOT_DESCRIBED),
    ("*/bin/ninja-build", _NOT_DESCRIBED),
    ("*/bin/nvcc --version", "the version is read from the toolkit's version.json"),
    ("*/bin/nvidia-container-cli", "the toolkit's version is said by nvidia-ctk and the packages"),
    ("*/bin/nvidia-ctk", "the program answers; its file is not written"),
    ("*/bin/nvidia-installer", "a .run install is seen by its uninstaller and its log"),
    ("/usr/share/containers/oci/hooks.d/*", "Podman's old hook is not described"),
    ("/opt/*/conda-meta", _NOT_DESCRIBED),
    ("/srv/*/conda-meta", _NOT_DESCRIBED),
    ("/opt/*/envs", _NOT_DESCRIBED),
    ("/root*/envs", _NOT_DESCRIBED),
    ("/opt/*lib64", "64-bit libraries of an environment are in lib"),
    ("/srv/*lib64", "64-bit libraries of an environment are in lib"),
    ("/root*lib64", "64-bit libraries of an environment are in lib"),
    ("/root", "the folder of root holds nothing that matters"),
    # libraries
    ("/usr/lib/nvidia", "libraries are in the distribution's own folder"),
    ("/usr/lib/nvidia-current", "libraries are in the distribution's own folder"),
    ("/usr/lib/nvidia-cuda-toolkit", "toolkits are NVIDIA's, under /usr/local"),
    ("/usr/lib/*-linux-gnu/tegra", "Jetson's libraries are in the distribution's own folder"),
    ("/usr/lib/ld-linux-aarch64.so.1", "the loader itself is not written"),
    ("/usr/local/cuda*/lib*", "a toolkit's libraries are under targets, where the links lead"),
    ("/usr/local/cuda*/version.txt", "toolkits before 11.1 are not simulated"),
    # /proc, /sys, /dev and /run
    ("/proc/mounts", "/proc/self/mountinfo says it"),
    ("/proc/driver", "no driver on this host"),
    ("/proc/device-tree/*", "only Jetson has one, and no hypervisor in it"),
    ("/sys/class/dmi", "Jetson has no DMI tables"),
    ("/sys/fs/cgroup/unified", "only the hybrid hierarchy has it"),
    ("/sys/fs/selinux", "a kernel without SELinux"),
    ("/sys/hypervisor", "only Xen has it"),
    ("/sys/hypervisor/type", "only Xen has it"),
    ("/sys/firmware/efi/efivars/Mok*", "no key waits and shim validates"),
    ("/sys/kernel/security", "securityfs is not mounted under WSL2"),
    ("/sys/kernel/security/lsm", "securityfs is not mounted under WSL2"),
    ("/sys/module/apparmor", "a kernel without AppArmor"),
    ("/sys/module/nvidia", "the module is not loaded"),
    ("/sys/module/nvidia/taint", "the kernel's own taint says it"),
    ("/sys/module/*/initstate", "modules that are listed are live"),
    ("/dev/nvidia-caps-imex-channels", "IMEX channels are not described"),
    ("/run/reboot-required", "no reboot is due"),
    ("/run/reboot-required.pkgs", "no reboot is due"),
    ("/run/systemd/container", "only systemd-nspawn and the like write it"),
    ("/run/systemd/timesync", "timedatectl says whether the clock is set"),
    ("/run/chrony", "timedatectl says whether the clock is set"),
    ("/run/ntp*", "timedatectl says whether the clock is set"),
    ("/run/openntpd", "timedatectl says whether the clock is set"),
    # modules on disk, packages, logs
    ("/lib/modules/*/weak-updates", "modules are under extra, updates or kernel"),
    ("/lib/modules/*/weak-updates/*", "modules are under extra, updates or kernel"),
    ("/lib/modules/*/kernel/drivers/char/drm", "where Amazon's kernels keep it; not simulated"),
    ("/lib/modules/*/modules.builtin", "a kernel whose package was removed"),
    ("/boot/initrd-*", "SUSE's name; the other names are written"),
    ("/var/lib/dkms/*/build/make.log", "the log of a build is kept under log/"),
    (
        "/var/lib/rpm",
        "no package database where the distribution is neither Debian's nor Red Hat's",
    ),
    ("/var/log/kern.log", "dmesg answers first"),
    ("journalctl -k *", "dmesg answers first"),
    ("/snap/docker/current", "the revision is found under /var/snap"),
    ("/var/snap/docker/[0-9]*", "the link current says the revision"),
    ("/var/snap/docker/current/config/daemon.json", "the snap's daemon has its defaults"),
)
"""(pattern, reason). Paths as they are, commands as their words joined by spaces, sockets as unix://SOCKET GET TARGET."""


def reason(asked: str) -> str | None:
    """Why no simulated host answers it, or None."""
    for pattern, why in ABSENT:
        if fnmatchcase(asked, pattern):
            return why
    return None
