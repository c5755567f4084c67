"""A signing key is told by its fingerprint, without gpg; a damaged or another key is refused; a session's limits only rise."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from library.session_limits import number, raised
from module_utils.openpgp import NotAKey, binary, fingerprints

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
KEY = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEaw208RYJKwYBBAHaRw8BAQdAogCff+hwn/hzxZpULiRfvB5TFxyfmpP/+uO/
4DcLC0+0IlN0YW5kLWluIDxzdGFuZGluQGV4YW1wbGUuaW52YWxpZD6IkAQTFggA
OBYhBLRivJQVQoWVvDffPBvHcY63u+drBQJrDbTxAhsDBQsJCAcCBhUKCQgLAgQW
AgMBAh4BAheAAAoJEBvHcY63u+drySgA/jt9+3I3+JxPH6qmDfVebuqjm19kXuMw
xtoaaixwGzLaAP9XM4YAO6W7b+DL8D+Uz+RYOFLM5bpowT+KEALxMNCwDQ==
=af8K
-----END PGP PUBLIC KEY BLOCK-----
"""
FINGERPRINT = "B462BC9415428595BC37DF3C1BC7718EB7BBE76B"
INFINITY = resource.RLIM_INFINITY


def test_armored_and_binary_keys_have_one_fingerprint() -> None:
    packets = binary(KEY.encode())
    assert binary(packets) == packets
    assert fingerprints(packets) == [FINGERPRINT]
    assert fingerprints(binary(KEY.replace("\n", "\r\n").encode())) == [FINGERPRINT]


def test_two_keys_in_one_file_are_two() -> None:
    assert fingerprints(binary((KEY + KEY).encode())) == [FINGERPRINT, FINGERPRINT]


def test_a_key_that_is_cut_or_changed_is_refused() -> None:
    packets = binary(KEY.encode())
    for end in range(1, len(packets)):
        try:
            assert fingerprints(packets[:end]) == [FINGERPRINT]
        except NotAKey:
            continue
    lines = KEY.splitlines()
    lines[3] = lines[3][::-1]
    with pytest.raises(NotAKey, match="damaged"):
        binary("\n".join(lines).encode())


@pytest.mark.parametrize("data", [b"", b"<html>404</html>", b"\x99", b"\xff\xff\xff", b"\xc6\xe1"])
def test_what_is_no_key_is_refused(data: bytes) -> None:
    with pytest.raises(NotAKey):
        fingerprints(binary(data))


def call(tmp_path: Path, **options: object) -> dict[str, object]:
    """The module as Ansible calls it."""
    runner = (
        "import sys, types, pathlib\n"
        f"root = pathlib.Path({str(PLAYBOOKS)!r})\n"
        "import ansible.module_utils as found\n"
        "found.__path__.append(str(root / 'module_utils'))\n"
        "exec(compile((root / 'library/signing_key.py').read_text(), 'signing_key', 'exec'))\n"
    )
    arguments = {"ANSIBLE_MODULE_ARGS": {"_ansible_remote_tmp": str(tmp_path), **options}}
    done = subprocess.run(
        [sys.executable, "-c", runner], input=json.dumps(arguments), capture_output=True, text=True
    )
    answer: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_the_module_writes_the_pinned_key_once_and_no_other(tmp_path: Path) -> None:
    source, dest = tmp_path / "key.asc", tmp_path / "keyrings/key.gpg"
    source.write_text(KEY)
    options = {"src": str(source), "dest": str(dest)}
    other = call(tmp_path, fingerprint="0" * 40, **options)
    assert "is pinned: nothing was written" in str(other["msg"])
    assert not dest.exists()
    assert call(tmp_path, fingerprint=FINGERPRINT, _ansible_check_mode=True, **options)["changed"]
    assert not dest.exists()
    assert call(tmp_path, fingerprint=FINGERPRINT.lower(), **options)["changed"]
    assert dest.read_bytes() == binary(KEY.encode())
    source.unlink()
    assert not call(tmp_path, fingerprint=FINGERPRINT, **options)["changed"]


def test_a_missing_key_and_half_a_fingerprint_are_refused(tmp_path: Path) -> None:
    options = {"src": str(tmp_path / "gone"), "dest": str(tmp_path / "key.gpg")}
    assert "cannot read the key" in str(call(tmp_path, fingerprint=FINGERPRINT, **options)["msg"])
    assert "not a full fingerprint" in str(
        call(tmp_path, fingerprint=FINGERPRINT[-8:], **options)["msg"]
    )


@pytest.mark.parametrize(
    ("now", "soft", "hard", "after"),
    [
        ((8 << 20, 8 << 20), INFINITY, INFINITY, (INFINITY, INFINITY)),
        ((1024, 524288), 131072, None, (131072, 524288)),
        ((1024, 4096), 131072, 131072, (131072, 131072)),
        ((1048576, 1048576), 131072, 131072, (1048576, 1048576)),
        ((INFINITY, INFINITY), 8 << 20, None, (8 << 20, INFINITY)),
    ],
)
def test_limits_rise_and_a_hard_one_never_falls(
    now: tuple[int, int], soft: int, hard: int | None, after: tuple[int, int]
) -> None:
    assert raised(now, soft, hard) == after


def test_limits_are_counted_as_limits_conf_counts_them() -> None:
    assert number("memlock", "unlimited") == INFINITY
    assert number("stack", 8192) == 8 << 20
    assert number("nofile", "131072") == 131072
    assert number("nproc", None) is None
