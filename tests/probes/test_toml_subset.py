"""The small TOML reader agrees with tomllib on what container engines write, and refuses the rest."""

from __future__ import annotations

import sys

import pytest

from doctor.probes.reading import toml_subset

TOOLKIT = """#accept-nvidia-visible-devices-envvar-when-unprivileged = true
disable-require = false
supported-driver-capabilities = "compat32,compute,display,graphics,ngx,utility,video"

[nvidia-container-cli]
environment = []
ldconfig = "@/sbin/ldconfig.real"
load-kmods = true
#no-cgroups = false

[nvidia-container-runtime]
log-level = "info"
mode = "auto"
runtimes = ["docker-runc", "runc", "crun"]

[nvidia-container-runtime.modes.cdi]
annotation-prefixes = ["cdi.k8s.io/"]
default-kind = "nvidia.com/gpu"
"""
CONTAINERD = """version = 3
root = '/var/lib/containerd'
oom_score = 0
[plugins]
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia] # added
    runtime_type = "io.containerd.runc.v2"
    options = { BinaryName = "/usr/bin/nvidia-container-runtime", SystemdCgroup = true }
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = [
      '/opt/cni/bin', # one
    ]
[[stream]]
x = 1.5
[[stream]]
x = -2
"""


@pytest.mark.parametrize("text", [TOOLKIT, CONTAINERD, "", "\n# only words\n", "a.b.c = 1\r\n"])
def test_agrees_with_tomllib(text: str) -> None:
    if sys.version_info < (3, 11):
        assert isinstance(toml_subset.parse_subset(text), dict)
        return
    import tomllib

    assert toml_subset.parse_subset(text) == tomllib.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "key",
        "key =",
        "key = ",
        "[table",
        'key = "no end',
        'key = """many\nlines"""',
        "key = [1, 2",
        "key = {a = 1",
        "a = 1\na = 2",
        "a = 1\n[a.b]\nc = 1",
        "key = maybe",
        'key = "\\u00e9"',
        "key = 1 2",
        "= 1",
        "\x00",
    ],
)
def test_refuses_what_it_cannot_read(text: str) -> None:
    with pytest.raises(ValueError):
        toml_subset.parse_subset(text)


def test_flattens_tables() -> None:
    flat = toml_subset.flatten(toml_subset.parse_subset(TOOLKIT))
    assert flat["nvidia-container-runtime.mode"] == "auto"
    assert flat["nvidia-container-runtime.modes.cdi.default-kind"] == "nvidia.com/gpu"
    assert flat["nvidia-container-cli.environment"] == []
    assert "nvidia-container-cli.no-cgroups" not in flat
