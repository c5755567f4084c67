"""The package probes: databases, repositories, keys, locks and what waits, in every spelling."""

from __future__ import annotations

import base64
import hashlib

import pytest

from doctor.probes.areas import packages
from doctor.probes.fact import Fact
from doctor.probes.reading import apt, openpgp, rpm
from doctor.probes.reading.apt import (
    deb_key,
    parse_candidates,
    parse_deb822,
    parse_one_line,
    parse_unattended,
)
from doctor.probes.source import Completed
from doctor.simulate.memory import MemorySource
from doctor.simulate.simulator import simulate
from doctor.simulate.writer import RecordingWriter


def recording(**more: object) -> RecordingWriter:
    return simulate({"gpus": ["NVIDIA L4"], "driver": "580.95.05"} | more)


def probed(out: RecordingWriter) -> dict[str, Fact]:
    return packages.probe(MemorySource(out))


def test_one_line_sources() -> None:
    text = (
        "# deb http://commented/ x main\n"
        "deb [arch=amd64 signed-by=/usr/share/keyrings/c.gpg] https://user:pw@host/repo/ /\n"
        "deb http://archive.ubuntu.com/ubuntu noble main restricted # end\n"
        "deb-src http://archive.ubuntu.com/ubuntu noble main\n"
        "deb [trusted=yes] file:/srv/mirror ./\n"
    )
    rows = parse_one_line(text)
    assert [row["url"] for row in rows] == [
        "https://host/repo/",
        "http://archive.ubuntu.com/ubuntu",
        "file:/srv/mirror",
    ]
    assert [row["signed"] for row in rows] == [True, None, False]
    assert rows[0]["key"] == "/usr/share/keyrings/c.gpg"


def test_deb822_sources() -> None:
    text = (
        "Types: deb\nURIs: http://a/ubuntu\nSuites: noble noble-updates\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/ubuntu.gpg\n\n"
        "Enabled: no\nTypes: deb\nURIs: http://b\nSuites: /\n\n"
        "Types: deb-src\nURIs: http://c\nSuites: x\n\n"
        "Types: deb\nURIs: http://d\nSuites: x\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n"
    )
    rows = parse_deb822(text)
    assert [(row["url"], row["suite"], row["enabled"]) for row in rows] == [
        ("http://a/ubuntu", "noble", True),
        ("http://a/ubuntu", "noble-updates", True),
        ("http://b", "/", False),
        ("http://d", "x", True),
    ]
    assert rows[-1]["key"] == "(inline)"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.0~rc1", "1.0"),
        ("580.95.05-0ubuntu1", "580.95.05-0ubuntu1.1"),
        ("580.95.05-0ubuntu1", "580.105.08-0ubuntu1"),
        ("9.9", "1:1.0"),
        ("1.2+b1", "1.2.1"),
        ("530.30.02-0ubuntu1", "530.41.03-0ubuntu0.22.04.2"),
        ("1.0", "1.0a"),
    ],
)
def test_deb_versions_are_ordered_as_dpkg_does(older: str, newer: str) -> None:
    assert deb_key(older) < deb_key(newer)
    assert deb_key(older) == deb_key(older)


def test_waiting_upgrades_are_read_from_the_lists() -> None:
    text = (
        "/var/lib/apt/lists/developer.download.nvidia.com_x_Packages:Package: cuda-drivers\n"
        "/var/lib/apt/lists/developer.download.nvidia.com_x_Packages-Version: 580.95.05-0ubuntu1\n"
        "--\n"
        "/var/lib/apt/lists/developer.download.nvidia.com_x_Packages:Package: cuda-drivers\n"
        "/var/lib/apt/lists/developer.download.nvidia.com_x_Packages-Architecture: amd64\n"
        "/var/lib/apt/lists/developer.download.nvidia.com_x_Packages-Version: 595.91.07-0ubuntu1\n"
    )
    rows = apt.newer(parse_candidates(text), {"cuda-drivers": "580.95.05-0ubuntu1"})
    assert rows == [
        {
            "name": "cuda-drivers",
            "installed": "580.95.05-0ubuntu1",
            "candidate": "595.91.07-0ubuntu1",
            "origin": "developer.download.nvidia.com",
        }
    ]


def test_compressed_lists_are_unknown_not_empty() -> None:
    out = recording()
    for path in [path for path in out.paths if path.endswith("_Packages")]:
        out.paths.pop(path)
        out.files.pop(path, None)
        out.paths["/var/lib/apt/lists"]["entries"].remove(path.rpartition("/")[2])
        out.file(path + ".lz4", keep=False)
    fact = probed(out)["pending"]
    assert fact.state == "unknown"
    assert "compressed" in fact.reason


def test_automatic_upgrades_of_apt() -> None:
    text = (
        'APT::Periodic::Unattended-Upgrade "1";\n'
        'Unattended-Upgrade::Allowed-Origins {\n  "${distro_id}:${distro_codename}-security";\n//  "x:y";\n};\n'
        'Unattended-Upgrade::Package-Blacklist {\n  "nvidia-";\n  // "vim";\n};\n'
        'Unattended-Upgrade::Package-Blacklist:: "linux-";\n'
    )
    found = parse_unattended(text)
    assert found["enabled"]
    assert found["excluded"] == ["nvidia-", "linux-"]
    assert found["origins"] == ["${distro_id}:${distro_codename}-security"]
    cleared = parse_unattended(text + "#clear Unattended-Upgrade::Package-Blacklist;\n")
    assert cleared["excluded"] == []
    assert not parse_unattended('APT::Periodic::Unattended-Upgrade "0";')["enabled"]
    assert not parse_unattended("")["enabled"]


def test_audit_names_what_is_half_done_and_not_what_lacks_a_checksum() -> None:
    text = (
        "The following packages are only half configured, probably due to problems\n"
        "configuring them the first time.  The configuration should be retried using\n"
        "dpkg --configure <package> or the configure menu option in dselect:\n"
        " nvidia-dkms-580     NVIDIA DKMS package\n\n"
        "The following packages are missing the md5sums control file in the\n"
        "database, they need to be reinstalled:\n"
        " some-tool            a tool\n"
    )
    assert apt.parse_audit(Completed(0, text, "")) == ["nvidia-dkms-580"]
    assert apt.parse_audit(Completed(0, "", "")) == []


def test_a_database_that_cannot_be_asked_is_unknown() -> None:
    out = recording()
    out.command(list(apt.QUERY), error="timeout")
    facts = probed(out)
    assert {facts[name].state for name in ("installed", "holds", "pending")} == {"unknown"}
    out.command(list(apt.QUERY), "Kein Paket\n")
    assert probed(out)["installed"].state == "unknown"


def test_dnf_repositories() -> None:
    text = (
        "[cuda-rhel9-x86_64]\nname=cuda\nbaseurl=https://u:p@host/rhel9/x86_64\nenabled=1\ngpgcheck=0\n"
        "gpgkey=https://host/a.pub\n  https://host/b.pub\nmodule_hotfixes=1\nexcludepkgs=x, y\n\n"
        "[off]\nname=off\nmetalink=https://mirrors/x\nenabled=0\n"
    )
    first, second = rpm.parse_repositories(text, True)
    assert first["url"] == "https://host/rhel9/x86_64"
    assert (first["signed"], first["module_hotfixes"], first["excludes"]) == (
        False,
        True,
        ["x", "y"],
    )
    assert first["key"] == "https://host/a.pub"
    assert (second["enabled"], second["signed"]) == (False, True)


def test_a_signed_list_of_packages_is_a_signature() -> None:
    text = "[a]\nname=a\nbaseurl=https://host/a\nrepo_gpgcheck=%d\ngpgcheck=0\n"
    assert [rpm.parse_repositories(text % said)[0]["signed"] for said in (0, 1)] == [False, True]


@pytest.mark.parametrize("text", ["no section\n", "[half\nx=1\n", "[a]\n[b\n\0\n"])
def test_a_broken_repository_file_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        rpm.parse_repositories(text)


def test_locks_of_dnf() -> None:
    assert rpm.parse_versionlock("# x\nnvidia-driver-3:580.95.05-1.el9.*\n!kernel-*\n\n") == [
        "nvidia-driver-3:580.95.05-1.el9.*"
    ]
    assert rpm.parse_versionlock_toml('[[packages]]\nname = "nvidia-open"\n') == ["nvidia-open"]
    assert rpm.parse_excludes("[main]\nexcludepkgs=kernel*, nvidia*\n") == ["kernel*", "nvidia*"]


def test_module_streams() -> None:
    text = "[nvidia-driver]\nname=nvidia-driver\nstream=open-dkms\nstate=enabled\n[php]\nstream=8\nstate=disabled\n"
    assert rpm.parse_modules(text) == {"nvidia-driver": "open-dkms"}


def test_rpm_rows_keep_the_newest_of_several_kernels() -> None:
    out = recording(distro="rocky-9.6")
    text = "kernel-core\t5.14.0-1.el9\t200\tx\nkernel-core\t5.14.0-2.el9\t100\tx\ngpg-pubkey\td42d0685-1\t1\tx\n"
    out.command(list(rpm.QUERY), text)
    facts = probed(out)
    assert facts["installed"].value == {"kernel-core": "5.14.0-1.el9"}
    assert facts["keys"].value == {"rpm": ["d42d0685"]}


def key_packet(body: bytes, *, new: bool = False) -> bytes:
    return (b"\xc6" if new else b"\x98") + bytes([len(body)]) + body


def test_fingerprints_of_a_keyring() -> None:
    body = b"\x04\x50\0\0\0\1\0\x08\x80\0\1\1"
    wanted = hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body).hexdigest().upper()
    assert openpgp.fingerprints(key_packet(body)) == [wanted]
    assert openpgp.fingerprints(key_packet(body, new=True)) == [wanted]
    armored = (
        b"-----BEGIN PGP PUBLIC KEY BLOCK-----\nVersion: 1\n\n"
        + base64.b64encode(key_packet(body))
        + b"\n=abcd\n-----END PGP PUBLIC KEY BLOCK-----\n"
    )
    assert openpgp.fingerprints(armored) == [wanted]
    assert openpgp.fingerprints(b"") == []


@pytest.mark.parametrize("data", [b"hello", b"\x98\xff\x04", b"\x99\x01", b"\xc6\xf0\x00"])
def test_what_is_no_keyring_is_an_error(data: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        openpgp.fingerprints(data)


def test_a_keyring_that_is_missing_is_said() -> None:
    facts = probed(recording(repos=["cuda signed-by=/usr/share/keyrings/gone.gpg"]))
    row = next(row for row in facts["repositories"].value if "nvidia" in row["url"])
    assert row["key_found"] is False
    assert facts["keys"].value == {}


def test_a_host_without_a_package_manager_is_unknown_not_empty() -> None:
    facts = probed(RecordingWriter())
    assert facts["manager"].state == "absent"
    assert facts["installed"].state == "unknown"


def test_in_a_container_packages_are_the_hosts() -> None:
    facts = probed(recording(platform="container"))
    assert facts["manager"].value == "apt"
    assert facts["installed"].state == facts["holds"].state == "not-applicable"
