"""The kernel probe: boot loaders, module files, DKMS, modprobe.d, firmware and the log."""

from __future__ import annotations

import pytest

from doctor.probes.areas import kernel
from doctor.probes.areas.kernel import parse_compiler, parse_lockdown
from doctor.probes.fact import Fact
from doctor.probes.reading import boot_loader, kernel_log
from doctor.probes.reading.boot_loader import choose, default_of, parse_menu, release_key
from doctor.probes.reading.kernel_modules import (
    blacklist_of_cmdline,
    parse_blacklist,
    parse_modinfo,
    parse_options,
)
from doctor.simulate.memory import MemorySource
from doctor.simulate.simulator import simulate
from doctor.simulate.writer import RecordingWriter

MENU = """
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
else
   set default="0"
fi
menuentry 'Ubuntu' --class ubuntu $menuentry_id_option 'gnulinux-simple-1' {
\tlinux\t/boot/vmlinuz-6.8.0-90-generic root=UUID=1 ro
\tinitrd\t/boot/initrd.img-6.8.0-90-generic
}
submenu 'Advanced options for Ubuntu' $menuentry_id_option 'gnulinux-advanced-1' {
\tmenuentry 'Ubuntu, with Linux 6.8.0-90-generic' $menuentry_id_option 'gnulinux-6.8.0-90-generic-advanced-1' {
\t\tlinux\t/boot/vmlinuz-6.8.0-90-generic root=UUID=1 ro
\t}
\tmenuentry 'Ubuntu, with Linux 6.8.0-85-generic' $menuentry_id_option 'gnulinux-6.8.0-85-generic-advanced-1' {
\t\tlinux\t/boot/vmlinuz-6.8.0-85-generic root=UUID=1 ro
\t}
}
menuentry 'Memory test' $menuentry_id_option 'memtest' {
\tlinux16 /boot/memtest86+.bin
}
"""


def recording(**more: object) -> RecordingWriter:
    return simulate({"gpus": ["NVIDIA L4"], "driver": "580.95.05"} | more)


def probed(out: RecordingWriter) -> dict[str, Fact]:
    return kernel.probe(MemorySource(out))


@pytest.mark.parametrize(
    ("default", "release"),
    [
        ("0", "6.8.0-90-generic"),
        ("1", "6.8.0-90-generic"),
        ("1>1", "6.8.0-85-generic"),
        ("Advanced options for Ubuntu>Ubuntu, with Linux 6.8.0-85-generic", "6.8.0-85-generic"),
        ("gnulinux-advanced-1>gnulinux-6.8.0-85-generic-advanced-1", "6.8.0-85-generic"),
        ("gnulinux-6.8.0-85-generic-advanced-1", "6.8.0-85-generic"),
        ("gnulinux-advanced-1>1", "6.8.0-85-generic"),
        ("2", ""),
        ("7", ""),
        ("no such entry", ""),
    ],
)
def test_the_default_entry_names_a_release(default: str, release: str) -> None:
    assert choose(parse_menu(MENU), default) == release


def test_grubenv_decides_once_and_for_good() -> None:
    assert default_of(MENU, {}) == "0"
    assert default_of(MENU, {"next_entry": "1>1"}) == "1>1"
    saved = MENU.replace('set default="0"', 'set default="${saved_entry}"')
    assert default_of(saved, {"saved_entry": "1>1"}) == "1>1"
    assert default_of(saved, {}) == "0"


def test_releases_are_ordered_as_versions() -> None:
    releases = ["6.8.0-9-generic", "6.8.0-100-generic", "5.15.0-157-generic", "6.11.0-8-generic"]
    assert sorted(releases, key=release_key) == [releases[2], releases[0], releases[1], releases[3]]


def test_a_menu_that_only_root_reads_is_told_by_what_makes_it() -> None:
    out = recording(root=False, previous_kernel="6.8.0-60-generic")
    assert probed(out)["next_boot"].value == "6.8.0-85-generic"
    out.file("/etc/default/grub", "GRUB_DEFAULT='1>2'\n")
    assert probed(out)["next_boot"].state == "unknown"


def test_loader_entries_that_only_root_reads_are_unknown() -> None:
    assert probed(recording(distro="rocky-9.6", root=False))["next_boot"].state == "unknown"


def test_a_saved_entry_that_is_gone_is_unknown() -> None:
    out = recording(distro="rocky-9.6")
    out.file("/boot/grub2/grubenv", "saved_entry=0123-5.14.0-1.el9.x86_64\n")
    assert probed(out)["next_boot"].state == "unknown"


def test_without_a_kernel_in_boot_the_question_does_not_arise() -> None:
    out = RecordingWriter()
    out.folder("/boot")
    assert boot_loader.next_boot(MemorySource(out)).state == "not-applicable"


def test_without_a_boot_loader_the_newest_kernel_starts() -> None:
    out = RecordingWriter()
    for release in ("6.1.0-9-amd64", "6.1.0-32-amd64"):
        out.file(f"/boot/vmlinuz-{release}", keep=False)
    assert boot_loader.next_boot(MemorySource(out)).value == "6.1.0-32-amd64"
    out.file("/boot/loader/loader.conf", "default auto\n")
    assert boot_loader.next_boot(MemorySource(out)).state == "unknown"


@pytest.mark.parametrize(
    ("text", "compiler"),
    [
        (
            "(x86_64-linux-gnu-gcc-13 (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0, GNU ld 2.42)",
            "gcc 13.3",
        ),
        (
            "(gcc (GCC) 11.5.0 20240719 (Red Hat 11.5.0-5), GNU ld version 2.35.2-63.el9)",
            "gcc 11.5",
        ),
        ("(gcc version 8.5.0 20210514 (Red Hat 8.5.0-22) (GCC))", "gcc 8.5"),
        ("(gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld (GNU Binutils for Debian) 2.40)", "gcc 12.2"),
        ("(clang version 18.1.8, LLD 18.1.8)", "clang 18.1"),
    ],
)
def test_the_compiler_of_the_kernel(text: str, compiler: str) -> None:
    assert parse_compiler("Linux version 6.8.0 (buildd@host) " + text + " #1 SMP") == compiler


def test_a_kernel_that_names_no_compiler_is_an_error() -> None:
    with pytest.raises(ValueError, match="compiler"):
        parse_compiler("Linux version 4.4.0 #1 Sun Jan 10")


def test_modinfo() -> None:
    text = "filename:       /lib/modules/R/extra/nvidia.ko.xz\nversion:        580.95.05\nlicense:        NVIDIA\n"
    found = parse_modinfo(
        text + "vermagic:       R SMP\nparm:           NvSwitchRegDwords:x (charp)\n"
    )
    assert (found["version"], found["flavor"], found["signer"]) == (
        "580.95.05",
        "proprietary",
        None,
    )
    assert parse_modinfo(text.replace("NVIDIA", "Dual MIT/GPL"))["flavor"] == "open"
    with pytest.raises(ValueError, match="neither"):
        parse_modinfo("modinfo: ERROR\n")


def test_modprobe_configuration() -> None:
    text = "blacklist nouveau\n#blacklist nova\ninstall nova-core /bin/false\noptions nvidia-drm modeset=1\nalias x y\n"
    assert parse_blacklist(text) == ["nouveau", "nova_core"]
    assert parse_options(text) == {"nvidia_drm": "modeset=1"}
    assert blacklist_of_cmdline("quiet rd.driver.blacklist=nouveau,nova-core ro") == [
        "nouveau",
        "nova_core",
    ]


def test_a_file_in_etc_replaces_the_packaged_one_of_its_name() -> None:
    out = recording(blacklist=[])
    out.file("/usr/lib/modprobe.d/gpu.conf", "blacklist nouveau\n")
    assert probed(out)["blacklist"].value == ["nouveau"]
    out.file("/etc/modprobe.d/gpu.conf", "# nothing\n")
    assert probed(out)["blacklist"].value == []


def test_a_modprobe_file_that_cannot_be_read_is_unknown_not_empty() -> None:
    out = recording()
    out.files.pop("/etc/modprobe.d/nvidia-graphics-drivers.conf")
    out.denied("/etc/modprobe.d/nvidia-graphics-drivers.conf")
    assert probed(out)["blacklist"].state == "unknown"


def test_headers_that_lead_nowhere_are_absent() -> None:
    assert probed(recording())["headers"].ok
    assert probed(recording(headers="none"))["headers"].state == "absent"


def test_dkms_states() -> None:
    def state(**dkms: object) -> list[tuple[str | None, str]]:
        rows = probed(recording(dkms=dkms))["dkms"].value
        return [(row["kernel"], row["state"]) for row in rows]

    assert state(state="installed") == [("6.8.0-85-generic", "installed")]
    assert state(state="built") == [("6.8.0-85-generic", "built")]
    assert state(state="added") == state(state="failed") == [(None, "added")]
    log = probed(recording(dkms={"state": "failed", "log": "fatal error: x.h"}))["dkms_log"]
    assert "6.8.0-85-generic" in log.value
    assert "fatal error" in log.value


def test_a_dkms_source_that_is_gone_is_broken() -> None:
    out = recording()
    out.paths.pop("/usr/src/nvidia-580.95.05")
    assert probed(out)["dkms"].value[0]["state"] == "broken"


@pytest.mark.parametrize(("data", "on"), [(b"\6\0\0\0\1", True), (b"\6\0\0\0\0", False)])
def test_secure_boot(data: bytes, on: bool) -> None:
    out = recording()
    out.file(kernel._SECURE_BOOT, data)
    assert probed(out)["secure_boot"].value is on


def test_secure_boot_that_cannot_be_read_is_unknown() -> None:
    out = recording()
    out.file(kernel._SECURE_BOOT, b"\6\0")
    assert probed(out)["secure_boot"].state == "unknown"
    out.files.pop(kernel._SECURE_BOOT)
    out.denied(kernel._SECURE_BOOT)
    assert probed(out)["secure_boot"].state == "unknown"


def test_a_shim_without_validation_is_not_secure_boot() -> None:
    out = recording(secure_boot="on")
    out.file(kernel._SHIM_OFF, b"\6\0\0\0\1")
    assert probed(out)["secure_boot"].value is False


def test_lockdown() -> None:
    assert parse_lockdown("none [integrity] confidentiality\n") == "integrity"
    with pytest.raises(ValueError, match="bracket"):
        parse_lockdown("")


LOG = """[    0.000000] Linux version 6.8
[    5.000000] nvidia: module verification failed: signature and/or required key missing - tainting kernel
[   12.345678] NVRM: Xid (PCI:0000:65:00): 79, pid=<unknown>, name=<unknown>, GPU has fallen off the bus.
[   13.000000] Loading of unsigned module is rejected
[   14.000000] Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7
[   15.000000] PM: suspend exit
"""


def test_the_log_is_read_for_what_it_says() -> None:
    assert kernel_log.xids(LOG) == [
        {
            "code": 79,
            "pci": "0000:65:00",
            "text": "NVRM: Xid (PCI:0000:65:00): 79, pid=<unknown>, name=<unknown>, GPU has fallen off the bus.",
            "seconds": 12.345678,
        }
    ]
    assert len(kernel_log.refused_lines(LOG)) == 2
    assert kernel_log.suspends(LOG) == 1
    assert len(kernel_log.driver_lines(LOG)) == 2
    assert kernel_log.seconds_of("Nov 30 12:00:00 host kernel: NVRM") is None


def test_a_log_that_is_denied_is_unknown_and_the_journal_may_answer() -> None:
    out = recording(root=False)
    assert probed(out)["xids"].state == "unknown"
    argv = ["journalctl", "-k", "-b", "-q", "-o", "short-monotonic", "--no-pager", "-n", "8000"]
    out.command(argv, LOG)
    assert probed(out)["xids"].value[0]["code"] == 79


@pytest.mark.parametrize("error", ["timeout", "too-large", "denied"])
def test_commands_that_do_not_answer_cost_their_fact_only(error: str) -> None:
    out = recording()
    out.command(["gcc", "-dumpfullversion", "-dumpversion"], error=error)
    out.command(["dmesg"], error=error)
    facts = probed(out)
    assert facts["gcc"].state == facts["refused"].state == "unknown"
    assert facts["running"].ok


def test_in_a_container_the_hosts_kernel_is_the_hosts() -> None:
    facts = probed(recording(platform="container"))
    assert {facts[name].state for name in ("next_boot", "dkms", "headers", "blacklist")} == {
        "not-applicable"
    }
    assert facts["running"].ok


def test_modules_without_a_module_table_come_from_sysfs() -> None:
    out = RecordingWriter()
    out.file("/sys/module/nvidia/initstate", "live\n")
    out.file("/sys/module/printk/parameters/time", "Y\n")
    assert probed(out)["modules"].value == ["nvidia"]
