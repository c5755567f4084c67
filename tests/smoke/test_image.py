"""The engine in an image, on a real Docker daemon: no privileges, the model read-only, the port on the loopback, nothing left."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doctor.smoke.engines.vllm import Vllm
from tests.smoke.running import HERE, smoke

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        os.geteuid() != 0
        or shutil.which("dockerd") is None
        or not Path("/usr/bin/python3").exists(),
        reason="no Docker answers here",
    ),
]
BRIDGE = "doctorsmoke0"
"""Of our own: a daemon that already runs here keeps its docker0."""
IMAGE = "doctor-smoke-stand-in:1"


class InImage(Vllm):
    """The adapter of vLLM for an image without a GPU."""

    gpu = False


@pytest.fixture
def daemon(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A daemon of our own with a bridge and no firewall rules."""
    folder = tmp_path_factory.mktemp("docker")
    host = f"unix://{folder}/docker.sock"
    made = [
        subprocess.run(["ip", *words.split()], capture_output=True).returncode
        for words in (
            f"link add {BRIDGE} type bridge",
            f"addr add 172.30.231.1/24 dev {BRIDGE}",
            f"link set {BRIDGE} up",
        )
    ]
    if any(made):
        pytest.skip("no Docker answers here: a bridge cannot be made")
    argv = ["dockerd", "-H", host, "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"]
    argv += ["--pidfile", f"{folder}/docker.pid", "--bridge", BRIDGE]
    argv += ["--iptables=false", "--ip6tables=false", "--ip-masq=false"]
    with (folder / "log").open("w") as log:
        child = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        for _ in range(150):
            if (
                subprocess.run(["docker", "-H", host, "version"], capture_output=True).returncode
                == 0
            ):
                break
            if child.poll() is not None:
                pytest.skip(f"no Docker answers here: {(folder / 'log').read_text()[-300:]}")
            time.sleep(0.2)
        monkeypatch.setenv("DOCKER_HOST", host)
        yield host
    finally:
        child.terminate()
        child.wait(30)
        subprocess.run(["ip", "link", "del", BRIDGE], check=False)


def image(host: str, **behaviour: Any) -> None:
    """An image of the system's Python in which `python3` is the stand-in engine."""
    version = subprocess.run(
        ["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", dereference=True) as archive:
        binary = f"/usr/bin/python{version}"
        loaded = [
            str(path) for path in Path(f"/usr/lib/python{version}/lib-dynload").glob("_ctypes.*.so")
        ]
        for path in (binary, *_libraries(binary, *loaded)):
            archive.add(path, arcname=path.lstrip("/"))
        archive.add(f"/usr/lib/python{version}", arcname=f"usr/lib/python{version}", filter=_small)
        _add(archive, "opt/fake_engine.py", (HERE / "fake_engine.py").read_bytes())
        _add(archive, "opt/answers.json", (HERE / "answers" / "llama.json").read_bytes())
        _add(archive, "opt/behaviour.json", json.dumps({"package": "vllm", **behaviour}).encode())
        launcher = (
            f"#!{binary} -B\nimport os, runpy, sys\n"
            f"if '-S' in sys.argv: os.execv({binary!r}, [{binary!r}, *sys.argv[1:]])\n"
            "runpy.run_path('/opt/fake_engine.py', run_name='__main__')\n"
        )
        _add(archive, "usr/local/bin/python3", launcher.encode(), 0o755)
    ran = subprocess.run(
        ["docker", "-H", host, "import", "-", IMAGE], input=data.getvalue(), capture_output=True
    )
    assert ran.returncode == 0, ran.stderr


def _libraries(*files: str) -> list[str]:
    said = subprocess.run(["ldd", *files], capture_output=True, text=True, check=True).stdout
    words = {
        word
        for line in said.splitlines()
        if "=>" in line or "ld-linux" in line
        for word in line.split()
    }
    return sorted(word for word in words if word.startswith("/"))


def _small(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    unneeded = (
        "__pycache__",
        "/test",
        "/idlelib",
        "/tkinter",
        "/ensurepip",
        "/config-",
        "/lib2to3",
    )
    return None if any(part in entry.name for part in unneeded) else entry


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def test_the_ladder_climbs_in_an_image(daemon: str, tmp_path: Path) -> None:
    image(daemon)
    seen: list[dict[str, Any]] = []

    class Watched(InImage):
        def tolerance(self, ctx: Any) -> Any:
            seen.append(_inspect(daemon, ctx.run))
            return super().tolerance(ctx)

        def dtype(self, ctx: Any) -> str:
            return "float32"

    report = smoke(tmp_path, None, image=IMAGE, engine=Watched(), user=None)  # type: ignore[arg-type]
    stages = {stage.name: stage for stage in report.stages}
    assert report.verdict == "passed", report.stages[-1].message
    assert stages["serve"].outcome == "pass"
    host = seen[0]["HostConfig"]
    assert (host["CapDrop"], host["Privileged"]) == (["ALL"], False)
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert seen[0]["Config"]["User"] == "65534:65534"
    (published,) = [item for items in host["PortBindings"].values() for item in items]
    assert published["HostIp"] == "127.0.0.1"
    assert [m["RW"] for m in seen[0]["Mounts"] if m["Destination"] == "/smoke/model"] == [False]
    assert report.left_behind == []
    left = subprocess.run(["docker", "-H", daemon, "ps", "-aq"], capture_output=True, text=True)
    assert left.stdout == ""


def test_an_image_that_is_not_there_is_no_verdict(daemon: str, tmp_path: Path) -> None:
    report = smoke(tmp_path, None, image="nobody/has:this", engine=InImage())  # type: ignore[arg-type]
    assert report.exit_code in (3, 6)
    assert report.left_behind == []


def _inspect(host: str, run: str) -> dict[str, Any]:
    listed = subprocess.run(
        [
            "docker",
            "-H",
            host,
            "ps",
            "-q",
            "--filter",
            f"label=gpu-host-doctor.smoke={run}",
            "--filter",
            "publish=1-65535",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    ids = listed.stdout.split()
    said = subprocess.run(
        ["docker", "-H", host, "inspect", *ids], capture_output=True, text=True, check=True
    )
    found: list[dict[str, Any]] = json.loads(said.stdout)
    return next(item for item in found if item["HostConfig"]["PortBindings"])
