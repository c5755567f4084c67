"""What both families' archives have for a GPU host."""

from parts import kernel_ko


def tables(folder):
    """What depmod wants beside the modules."""
    return {
        folder + "/" + name: (b"", 0o644)
        for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order")
    }


def nouveau(release):
    """The kernel's own driver for the same boards."""
    return (kernel_ko("0", "open", release), 0o644)


def gcc(version, name="gcc"):
    body = (
        "#!/bin/sh\ncase \"$*\" in *dumpfullversion*|*dumpversion*) echo %s;; *) echo 'gcc (GCC) %s';; esac\n"
        % (version, version)
    )
    return {"/usr/bin/" + name: (body.encode(), 0o755)}
