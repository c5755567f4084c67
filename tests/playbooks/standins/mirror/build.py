"""Builds every stub package and publishes them as the vendors do, below /srv/mirror/<host name>. Runs in the builder image."""

import json
import pathlib
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, "/srv/build")
import catalog
from publish import flat, keyrings, loose, rpms, suites
from sign import MIRROR, authority, keys, run


def place(root, stub):
    for path, (data, mode) in stub.files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(mode)
    for path, to in stub.links.items():
        link = root / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(to)


def deb(stub, number):
    root = pathlib.Path("/tmp/deb/%d" % number)
    place(root, stub)
    control = root / "DEBIAN"
    control.mkdir(parents=True)
    lines = [
        "Package: " + stub.name,
        "Version: " + stub.version,
        "Architecture: " + stub.arch,
        "Maintainer: Stand-in <nobody@standin.test>",
        "Description: " + stub.say,
    ]
    for title, values in (
        ("Depends", stub.depends),
        ("Provides", stub.provides),
        ("Conflicts", stub.conflicts),
        ("Recommends", stub.recommends),
    ):
        if values:
            lines.append("%s: %s" % (title, ", ".join(values)))
    (control / "control").write_text("\n".join(lines) + "\n")
    if stub.config:
        (control / "conffiles").write_text("\n".join(stub.config) + "\n")
    for name, body in (
        ("postinst", stub.after),
        ("prerm", stub.before_remove),
        ("postrm", stub.after_remove),
    ):
        if body:
            script = control / name
            guard = '[ "$1" = configure ] || exit 0\n' if name == "postinst" else ""
            script.write_text("#!/bin/sh\n" + guard + body + "exit 0\n")
            script.chmod(0o755)
    folder = pathlib.Path("/srv/built") / stub.repo
    folder.mkdir(parents=True, exist_ok=True)
    name = "%s_%s_%s.deb" % (stub.name, stub.version.rpartition(":")[2], stub.arch)
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", root, folder / name)
    shutil.rmtree(root)


OWNED = ("/usr/share/doc/", "/usr/lib/firmware/nvidia/")
"""Below these a package owns its folder, so that it goes with the package."""


def rpm(stub, number):
    base = pathlib.Path("/tmp/rpm/%d" % number)
    root = base / "root"
    root.mkdir(parents=True)
    place(root, stub)
    owned = list(stub.files) + list(stub.links)
    lines = [
        "Name: " + stub.name,
        "Version: " + stub.version,
        "Release: " + stub.release,
        "Summary: " + stub.say,
        "License: MIT",
        "AutoReqProv: no",
    ]
    lines += ["Epoch: " + stub.epoch] if stub.epoch else []
    lines += ["BuildArch: " + stub.arch] if stub.arch == "noarch" else []
    lines += (
        ["Requires: " + item for item in stub.depends]
        + ["Provides: " + item for item in stub.provides]
        + ["Conflicts: " + item for item in stub.conflicts]
    )
    lines += [
        "%description",
        stub.say,
        "%install",
        "mkdir -p %%{buildroot} && cp -a %s/. %%{buildroot}/" % root,
    ]
    for section, body in (
        ("%post", stub.after),
        ("%preun", stub.before_remove),
        ("%postun", stub.after_remove),
    ):
        if body:
            lines += [section, body.rstrip(), "exit 0"]
    lines += ["%files"]
    folders = {str(pathlib.PurePath(path).parent) for path in owned}
    lines += ['%%dir "%s"' % name for name in sorted(folders) if name.startswith(OWNED)]
    for path in owned:
        kind = "%config(noreplace) " if path in stub.config else ""
        lines.append('%s"%s"' % (kind, path))
    spec = base / "stub.spec"
    spec.write_text("\n".join(lines) + "\n")
    folder = pathlib.Path("/srv/built") / stub.repo
    folder.mkdir(parents=True, exist_ok=True)
    run(
        "rpmbuild",
        "-bb",
        "--target",
        "x86_64" if stub.arch != "noarch" else "noarch",
        "--define",
        "_topdir %s/top" % base,
        "--define",
        "_rpmdir %s" % folder,
        "--define",
        "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
        "--define",
        "_build_id_links none",
        "--define",
        "__os_install_post %{nil}",
        "--define",
        "_dbpath /var/lib/rpm",
        "--define",
        "_binary_payload w1.gzdio",
        spec,
    )
    shutil.rmtree(base)


def main():
    versions = json.loads(pathlib.Path("/srv/build/versions.json").read_text())
    keys()
    stubs = catalog.everything(versions) + keyrings()
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda item: (rpm if item[1].arch in ("x86_64", "noarch") else deb)(
                    item[1], item[0]
                ),
                enumerate(stubs),
            )
        )
    for repo in sorted({stub.repo for stub in stubs}):
        codename = repo.rpartition("/")[2]
        if repo.startswith("archive.ubuntu.com"):
            suites(
                repo,
                codename,
                "main",
                [codename, codename + "-updates", codename + "-security"],
                "os",
            )
        elif repo.startswith("download.docker.com/linux/ubuntu"):
            suites(repo, codename, "stable", [codename], "vendor")
        elif any(stub.repo == repo and stub.arch in ("x86_64", "noarch") for stub in stubs):
            rpms(repo)
        else:
            flat(repo)
    loose(versions)
    shutil.copytree(MIRROR / "archive.ubuntu.com", MIRROR / "security.ubuntu.com")
    authority()
    print("%d packages in %d repositories" % (len(stubs), len({stub.repo for stub in stubs})))


main()
