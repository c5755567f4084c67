"""Any inventory Ansible reads, and folders of recordings: whom an audit asks, in which groups, and whom it does not."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from doctor import engine
from doctor.errors import UsageError
from doctor.fleet import settings
from doctor.fleet.audit import AuditOptions
from doctor.fleet.collect import pattern
from doctor.fleet.inventory import groups_of, read
from tests.fleet import hosts

INI = "lone\n[gpu]\nnode[01:03] ansible_connection=local\n[rack:children]\ngpu\n"
YAML = "all:\n  children:\n    gpu:\n      hosts:\n        node[01:03]:\n    rack:\n      children:\n        gpu:\n  hosts:\n    lone:\n"
SCRIPT = """#!/bin/sh
echo '{"gpu": {"hosts": ["node01", "node02", "node03"]}, "rack": {"children": ["gpu"]}, "ungrouped": {"hosts": ["lone"]}, "_meta": {"hostvars": {}}}'
"""
EXPECTED = {"lone": [], **{f"node0{n}": ["gpu", "rack"] for n in (1, 2, 3)}}


@pytest.mark.parametrize(
    ("name", "text", "mode"),
    [("hosts.ini", INI, 0o644), ("hosts.yml", YAML, 0o644), ("hosts.sh", SCRIPT, 0o755)],
)
def test_what_ansible_reads(tmp_path: Path, name: str, text: str, mode: int) -> None:
    path = tmp_path / name
    path.write_text(text)
    path.chmod(mode)
    assert read([str(path)]).hosts == EXPECTED
    assert list(read([str(path)], "gpu:!node02").hosts) == ["node01", "node03"]


def test_a_plain_list_of_hosts() -> None:
    assert read(["a,b"]).hosts == {"a": [], "b": []}


@pytest.mark.parametrize("text", ["[[[\n", "gpu: {hosts: [\n"])
def test_what_cannot_be_read_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(UsageError, match="cannot be read"):
        read([str(path)])
    with pytest.raises(UsageError, match="is not there"):
        read([str(tmp_path / "none")])


def test_groups_are_found_through_children_and_circles_end() -> None:
    document = {"a": {"children": ["b"]}, "b": {"children": ["a"], "hosts": ["h"]}}
    assert groups_of(document) == {"h": ["a", "b"]}


@pytest.mark.parametrize(
    "text",
    ["-o StrictHostKeyChecking=no", "-oStrictHostKeyChecking=off", "-o 'StrictHostKeyChecking no'"],
)
def test_switching_checking_off_is_seen(text: str) -> None:
    assert settings.switched_off(text)


def test_taking_a_key_the_first_time_is_not_switching_off() -> None:
    assert not settings.switched_off("-o StrictHostKeyChecking=accept-new -o ProxyJump=no")


@pytest.mark.parametrize(
    "name", ["a.b-c_1", "2001:db8::1", "a,b", "web[1]", "!x", "~.*", "h*", "ü", "a b"]
)
def test_a_limit_means_one_host(name: str) -> None:
    found = pattern(name)
    if found == name:
        assert re.fullmatch(r"[\w.-]+", name)
        return
    assert found[0] == "~"
    assert not set(",:[]!&*") & set(found[2:-1])
    assert re.match(found[1:], name)
    assert not re.match(found[1:], name + "x")


def test_a_configuration_that_switches_checking_off_stops_ssh_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ansible.cfg").write_text(
        "[ssh_connection]\nssh_args = -o StrictHostKeyChecking=no\n"
    )
    (tmp_path / "hosts").write_text("there ansible_host=127.0.0.1 ansible_port=1\n")
    monkeypatch.chdir(tmp_path)
    asked = AuditOptions(inventory=("hosts",), folder=tmp_path / "out", database=tmp_path / "h.db")
    line = engine.audit(asked).fleet.hosts[0]
    assert (line.state, "host-key checking off" in line.reason) == ("failed", True)


def test_a_folder_of_recordings_facts_and_reports(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    hosts.recording(folder, "good")
    hosts.recording(folder, "bad", driver="none")
    broken = shutil.copytree(folder / "good", folder / "broken")
    (broken / "paths.json").write_text("{")
    (folder / "notes.json").write_text("{}")
    (folder / "lies.json").write_text(
        '{"schema": "doctor.facts/1", "facts": {"host": {"cpus": {"state": "known"}}}}'
    )
    (folder / "link").symlink_to(folder / "good")
    asked = AuditOptions(
        inventory=(str(folder),), folder=tmp_path / "out", database=tmp_path / "h.db"
    )
    fleet = engine.audit(asked).fleet
    stands = {line.name: (line.state, line.verdict) for line in fleet.hosts}
    assert stands == {
        "good": ("audited", "healthy"),
        "bad": ("audited", "broken"),
        "broken": ("refused", "unknown"),
        "lies": ("audited", "unknown"),
    }
    again = AuditOptions(
        inventory=(str(tmp_path / "out"),), folder=tmp_path / "2", database=tmp_path / "h.db"
    )
    rejudged = {line.name: line.verdict for line in engine.audit(again).fleet.hosts}
    assert rejudged == {"good": "healthy", "bad": "broken", "lies": "unknown"}
    report = json.loads((tmp_path / "out" / "good.json").read_text())
    assert report["host"]["source"] == str(folder / "good")
