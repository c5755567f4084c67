#!/usr/bin/python3 -I
"""Tools that reach for a real kernel, firmware or boot loader, over the laid-out one. One file under many names."""

import glob
import os
import shlex
import sys

sys.path.insert(0, "/usr/lib/standin")
import kernel as k


def words(argv):
    return [item for item in argv if not item.startswith("-")]


def modprobe(argv):
    """modprobe [-r] [-q] NAME..."""
    if "-n" in argv or "--dry-run" in argv or "--show-depends" in argv:
        return 0
    removing = "-r" in argv or "--remove" in argv
    quiet = "-q" in argv or "--quiet" in argv
    names = words(argv)
    for name in names if removing or "-a" in argv else names[:1]:
        plain = name.replace("-", "_")
        try:
            if removing:
                if plain == "nvidia":
                    for child in ("nvidia_drm", "nvidia_modeset", "nvidia_uvm"):
                        if k.loaded(child):
                            k.unload(child)
                if k.loaded(plain):
                    k.unload(plain)
            elif "-b" in argv and k.blacklisted(plain, k.release()):
                return 1
            else:
                k.permitted(plain)
                k.load(plain)
        except k.Refused as refused:
            if not quiet:
                print("modprobe: %s" % refused, file=sys.stderr)
            return 1
    return 0


def nvidia_modprobe(argv):
    """nvidia-modprobe [-u] [-c N]...: modules, then their nodes."""
    try:
        k.load("nvidia_uvm" if "-u" in argv or not argv else "nvidia")
    except k.Refused as refused:
        print("nvidia-modprobe: %s" % refused, file=sys.stderr)
        return 1
    names = ["nvidiactl"] + ["nvidia%d" % n for n, _ in enumerate(k.gpus())]
    k.make_nodes(names + (["nvidia-uvm", "nvidia-uvm-tools"] if k.loaded("nvidia_uvm") else []))
    return 0


def rmmod(argv):
    for name in words(argv):
        try:
            k.unload(name)
        except k.Refused as refused:
            print("rmmod: %s" % refused, file=sys.stderr)
            return 1
    return 0


def lsmod(argv):
    print("Module                  Size  Used by")
    for line in k.read(k.RUN + "/modules").splitlines():
        print("%-19s %8d  0" % (line.split()[0], 65536))
    return 0


def initrd_path(kernel):
    return (
        "/boot/initrd.img-%s" % kernel
        if k.host()["family"] == "debian"
        else "/boot/initramfs-%s.img" % kernel
    )


def rebuild(kernels):
    for kernel in kernels:
        k.write(initrd_path(kernel), k.configuration(), 0o600)
    return 0


def update_initramfs(argv):
    """-u|-c [-k all|VERSION]; -d deletes."""
    wanted = argv[argv.index("-k") + 1] if "-k" in argv else k.release()
    if "-d" in argv:
        if os.path.exists(initrd_path(wanted)):
            os.unlink(initrd_path(wanted))
        return 0
    kernels = k.kernels() if wanted == "all" else [wanted]
    for kernel in kernels:
        print("update-initramfs: Generating " + initrd_path(kernel))
    return rebuild(kernels)


def dracut(argv):
    """-f [--regenerate-all | --kver R]."""
    if "--regenerate-all" in argv:
        return rebuild(k.kernels())
    if "--kver" in argv:
        return rebuild([argv[argv.index("--kver") + 1]])
    named = words(argv)
    return rebuild([named[1] if len(named) > 1 else k.release()])


def lsinit(argv):
    """The names and, for a stand-in, the configuration inside."""
    path = words(argv)[0] if words(argv) else initrd_path(k.release())
    sys.stdout.write("etc/modprobe.d\n" + k.read(path))
    return 0


def update_grub(argv):
    """The menu of Debian's family: newest first, then the submenu."""
    arguments = (
        defaults().get("GRUB_CMDLINE_LINUX_DEFAULT", "quiet")
        + " "
        + defaults().get("GRUB_CMDLINE_LINUX", "")
    )
    lines = [
        'if [ "${next_entry}" ] ; then',
        '   set default="${next_entry}"',
        "else",
        '   set default="0"',
        "fi",
    ]
    kernels = list(reversed(k.kernels()))

    def entry(indent, title, ident, kernel):
        lines.append(
            "%smenuentry '%s' --class gnu-linux $menuentry_id_option '%s' {"
            % (indent, title, ident)
        )
        lines.append(
            "%s\tlinux\t/boot/vmlinuz-%s root=/dev/nvme0n1p2 ro %s"
            % (indent, kernel, arguments.strip())
        )
        lines.append(indent + "}")

    if kernels:
        entry("", "Linux", "gnulinux-simple-1", kernels[0])
        lines.append("submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-1' {")
        for kernel in kernels:
            entry("\t", "Linux, with Linux " + kernel, "gnulinux-%s-advanced-1" % kernel, kernel)
        lines.append("}")
    k.write("/boot/grub/grub.cfg", "\n".join(lines) + "\n", 0o600)
    return 0


def defaults():
    pairs = (
        line.partition("=") for line in k.read("/etc/default/grub").splitlines() if "=" in line
    )
    return {name.strip(): " ".join(shlex.split(value)) for name, _, value in pairs}


def machine():
    return k.read("/etc/machine-id").strip() or "0" * 32


def grub_mkconfig(argv):
    """Loader entries of the EL family."""
    kernels = k.kernels()
    for path in glob.glob("/boot/loader/entries/*.conf"):
        if not any(path.endswith("-%s.conf" % kernel) for kernel in kernels):
            os.unlink(path)
    for kernel in kernels:
        path = "/boot/loader/entries/%s-%s.conf" % (machine(), kernel)
        if not os.path.exists(path):
            k.write(
                path,
                "title Rocky Linux (%s)\nversion %s\nlinux /vmlinuz-%s\ninitrd /initramfs-%s.img\noptions root=/dev/nvme0n1p2 ro\n"
                % ((kernel,) * 4),
            )
    saved = "%s-%s" % (machine(), kernels[-1]) if kernels else ""
    k.write("/boot/grub2/grubenv", "# GRUB Environment Block\nsaved_entry=%s\n" % saved, 0o600)
    return 0


def grubby(argv):
    """--update-kernel=ALL --args=... --remove-args=...; --info, --default-kernel."""
    values = dict(
        item[2:].partition("=")[::2] for item in argv if item.startswith("--") and "=" in item
    )
    for path in sorted(glob.glob("/boot/loader/entries/*.conf")):
        lines = k.read(path).splitlines()
        for number, line in enumerate(lines):
            if not line.startswith("options "):
                continue
            options = line.split()[1:]
            options = [
                item for item in options if item not in values.get("remove-args", "").split()
            ]
            options += [item for item in values.get("args", "").split() if item not in options]
            lines[number] = "options " + " ".join(options)
        if values.get("args") or values.get("remove-args"):
            k.write(path, "\n".join(lines) + "\n")
        elif "--default-kernel" not in argv:
            print("\n".join(lines))
    if "--default-kernel" in argv and k.kernels():
        print("/boot/vmlinuz-" + k.kernels()[-1])
    return 0


def mokutil(argv):
    if "--sb-state" in argv:
        print("SecureBoot " + ("enabled" if k.secure_boot() else "disabled"))
    return 0


TOOLS = {
    "modprobe": modprobe,
    "insmod": modprobe,
    "nvidia-modprobe": nvidia_modprobe,
    "rmmod": rmmod,
    "lsmod": lsmod,
    "update-initramfs": update_initramfs,
    "dracut": dracut,
    "lsinitramfs": lsinit,
    "lsinitrd": lsinit,
    "update-grub": update_grub,
    "grub2-mkconfig": grub_mkconfig,
    "grubby": grubby,
    "mokutil": mokutil,
}

if __name__ == "__main__":
    sys.exit(TOOLS[os.path.basename(sys.argv[0])](sys.argv[1:]))
