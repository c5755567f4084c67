"""What the stub packages are made of: libraries, modules, units and scripts, the same for dpkg and rpm."""

import pathlib
import subprocess

HERE = pathlib.Path("/srv/build")
OUT = pathlib.Path("/tmp/compiled")
KERNELS = {
    "jammy": ("5.15.0-139-generic", "5.15.0-141-generic"),
    "noble": ("6.8.0-60-generic", "6.8.0-62-generic"),
    "el9": ("5.14.0-570.12.1.el9_6.x86_64", "5.14.0-570.17.1.el9_6.x86_64"),
    "el10": ("6.12.0-55.9.1.el10_0.x86_64", "6.12.0-55.12.1.el10_0.x86_64"),
}
NOTE = (b"stand-in\n", 0o644)
DEB_LIB = "/usr/lib/x86_64-linux-gnu"
START = "systemctl daemon-reload || true\nsystemctl enable --now %s || true\n"
STOP = "systemctl disable --now %s || true\n"


def text(name):
    return (HERE / "files" / name).read_bytes()


def compiled(source, out, **defines):
    """One mock library."""
    OUT.mkdir(exist_ok=True)
    target = OUT / out
    if not target.exists():
        flags = ["-D%s=%s" % item for item in defines.items()]
        soname = (
            []
            if out.endswith(".ko")
            else ["-shared", "-fPIC", "-Wl,-soname," + out.split(".so")[0] + ".so.1"]
        )
        only = ["-c"] if out.endswith(".ko") else []
        subprocess.run(
            ["gcc", "-O1", *only, *soname, *flags, "-o", str(target), str(HERE / "mock" / source)],
            check=True,
        )
    return target.read_bytes()


def cuda_of(version):
    """The CUDA level of a driver branch, as cuDriverGetVersion says it."""
    return {"550": 12040, "570": 12080, "580": 13000, "595": 13020, "615": 13040, "620": 13050}[
        version.split(".")[0]
    ]


def libraries(version, libdir):
    """libnvidia-ml and libcuda of one driver version."""
    quoted = '"%s"' % version
    files, links = {}, {}
    for source, stem in (("nvml.c", "libnvidia-ml"), ("cuda.c", "libcuda")):
        built = compiled(
            source, "%s.so.%s" % (stem, version), VERSION=quoted, CUDA=cuda_of(version)
        )
        files["%s/%s.so.%s" % (libdir, stem, version)] = (built, 0o644)
        links["%s/%s.so.1" % (libdir, stem)] = "%s.so.%s" % (stem, version)
    links[libdir + "/libcuda.so"] = "libcuda.so.1"
    return files, links


def module(version, flavor):
    """nvidia.ko before it is built for a kernel."""
    quoted = '"%s"' % version
    return compiled(
        "module.c",
        "nvidia-%s-%s.ko" % (flavor, version),
        VERSION=quoted,
        LICENSE='"Dual MIT/GPL"' if flavor == "open" else '"NVIDIA"',
    )


def kernel_ko(version, flavor, release):
    """nvidia.ko built for a kernel, as precompiled packages carry it."""
    return for_kernel(module(version, flavor), release)


def for_kernel(data, release):
    start = data.index(b"@KERNEL@")
    end = start + 8
    while data[end : end + 1] == b" ":
        end += 1
    magic = ("%s SMP preempt mod_unload modversions " % release).encode()
    return data[:start] + magic + b"\0" * (end - start - len(magic)) + data[end:]


def script(name):
    return (text(name), 0o755)


def unit(name):
    return (text(name), 0o644)


def at(path, version):
    """A script with its version filled in."""
    data, mode = script(path)
    return data.replace(b"@VERSION@", version.encode()), mode
