"""The tests' own keys and certificate authority, and running commands."""

import pathlib
import re
import subprocess

MIRROR = pathlib.Path("/srv/mirror")

KEYS = pathlib.Path("/srv/keys")

GPG = ["gpg", "--batch", "--yes", "--homedir", "/srv/gnupg"]

NAMES = {
    "os": "Stand-in Distribution <os@standin.test>",
    "vendor": "Stand-in Vendor <vendor@standin.test>",
}

ALIAS = ("dl.rockylinux.org", "dl.fedoraproject.org", "archive.ubuntu.com")


def run(*argv, **more):
    done = subprocess.run([str(item) for item in argv], capture_output=True, text=True, **more)
    if done.returncode:
        raise SystemExit(
            "%s\n%s\n%s"
            % (" ".join(map(str, argv))[:400], done.stdout[-3000:], done.stderr[-3000:])
        )
    return done.stdout


def key_of(repo):
    return "os" if repo.startswith(ALIAS) else "vendor"


def keys():
    """Two keys: the distributions' and the vendors'."""
    pathlib.Path("/srv/gnupg").mkdir(mode=0o700)
    KEYS.mkdir()
    for name, uid in NAMES.items():
        run(*GPG, "--passphrase", "", "--quick-generate-key", uid, "rsa2048", "sign", "never")
        (KEYS / (name + ".asc")).write_text(run(*GPG, "--armor", "--export", uid))
        run(*GPG, "--output", KEYS / (name + ".gpg"), "--export", uid)
        listed = run(*GPG, "--with-colons", "--fingerprint", uid)
        (KEYS / (name + ".fingerprint")).write_text(
            re.search(r"^fpr:+([0-9A-F]{40}):", listed, re.M).group(1)
        )


def authority():
    """A certificate authority of the stand-ins and one certificate for every host name of the mirror."""
    hosts = sorted({path.name for path in MIRROR.iterdir()})
    run(
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "7300",
        "-subj",
        "/CN=Stand-in CA",
        "-keyout",
        "/srv/gnupg/ca.key",
        "-out",
        KEYS / "ca.crt",
    )
    run(
        "openssl",
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=mirror",
        "-keyout",
        "/srv/gnupg/mirror.key",
        "-out",
        "/tmp/mirror.csr",
    )
    pathlib.Path("/tmp/ext").write_text(
        "subjectAltName=" + ",".join("DNS:" + host for host in hosts) + "\n"
    )
    run(
        "openssl",
        "x509",
        "-req",
        "-in",
        "/tmp/mirror.csr",
        "-CA",
        KEYS / "ca.crt",
        "-CAkey",
        "/srv/gnupg/ca.key",
        "-CAcreateserial",
        "-days",
        "7300",
        "-extfile",
        "/tmp/ext",
        "-out",
        "/srv/gnupg/mirror.crt",
    )
