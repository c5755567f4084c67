"""Images of the stand-ins, built once and kept by the digest of everything that goes into them."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from doctor.matrix.load import load
from doctor.matrix.want_query import branches_newest_first, container_toolkits_newest_first
from tests.playbooks.standins.engine import CACHE, Engine, locked

HERE = Path(__file__).parent
FLAVORS = ("ubuntu2204", "ubuntu2404", "rocky9", "rocky10", "wsl2")
OLD_DRIVER = "580.65.06"


def digest(*parts: Path | str) -> str:
    """Twelve digits over files and words."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            total.update(part.encode() + b"\0")
            continue
        files = sorted(part.rglob("*")) if part.is_dir() else [part]
        for path in files:
            if path.is_file() and "__pycache__" not in path.parts:
                total.update(str(path.relative_to(HERE)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:12]


def mirrored() -> dict[str, list[str]]:
    """Versions of what the mirror takes from the matrix."""
    return {
        **driver_versions(),
        "toolkit": [container_toolkits_newest_first(load())[0].version.raw],
    }


def driver_versions() -> dict[str, list[str]]:
    """Drivers of the mirror, oldest first: of a branch for CUDA 12, an old one, and the newest of the long-term branches."""
    latest = [
        str(row.latest)
        for row in branches_newest_first(load())
        if row.latest is not None and str(row.branch) in ("570", "580", "620")
    ]
    drivers = sorted({OLD_DRIVER, *latest}, key=lambda text: [int(n) for n in text.split(".")])
    return {"drivers": drivers, "archive": [item for item in drivers if item.startswith("580.")]}


def debian_mirror() -> str:
    """The Debian archive that this machine itself uses."""
    for path in [*Path("/etc/apt/sources.list.d").glob("*"), Path("/etc/apt/sources.list")]:
        if not path.is_file():
            continue
        for found in re.findall(r"(https?://[^\s\]]+)", path.read_text(errors="replace")):
            if re.search(r"/debian/?$", found) and "snapshot" not in found:
                return str(found)
    return "http://deb.debian.org/debian"


def base(engine: Engine) -> str:
    """The root file system of all."""
    name = f"standin-base:{digest(HERE / 'image/rootfs.sh')}"
    with locked("base"):
        if engine.has_image(name):
            return name
        root = Path(tempfile.mkdtemp(prefix="standin-root-", dir=CACHE))
        try:
            subprocess.run(
                ["bash", str(HERE / "image/rootfs.sh"), str(root), debian_mirror()], check=True
            )
            with subprocess.Popen(
                ["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE
            ) as tar:
                subprocess.run(
                    ["docker", "import", "-", name],
                    stdin=tar.stdout,
                    env=engine.environment,
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
            assert tar.returncode == 0
        finally:
            shutil.rmtree(root, ignore_errors=True)
    return name


def builder(engine: Engine) -> str:
    """The base with a compiler and createrepo."""
    below = base(engine)
    name = f"standin-builder:{digest(below, HERE / 'image/Dockerfile.builder')}"
    return _build(engine, name, "Dockerfile.builder", {"BASE": below}, network="host")


@functools.cache
def mirror(engine: Engine) -> str:
    """All stub packages in signed repositories, and the server of them: one for a session, whatever is edited meanwhile."""
    versions = json.dumps(mirrored())
    below = builder(engine)
    parts = (HERE / "mirror", HERE / "mock", HERE / "image/Dockerfile.mirror")
    name = f"standin-mirror:{digest(below, versions, *parts)}"
    return _build(
        engine, name, "Dockerfile.mirror", {"BUILDER": below}, {"versions.json": versions}
    )


def host(engine: Engine, flavor: str) -> str:
    """One distribution."""
    source = mirror(engine)
    name = f"standin-{flavor}:{digest(source, HERE / 'image')}"
    arguments = {"MIRROR": source, "BASE": base(engine), "FLAVOR": flavor}
    return _build(engine, name, "Dockerfile.host", arguments)


def _build(
    engine: Engine,
    name: str,
    recipe: str,
    arguments: dict[str, str],
    more: dict[str, str] | None = None,
    network: str = "none",
) -> str:
    with locked(name.partition(":")[0]):
        if engine.has_image(name):
            return name
        with tempfile.TemporaryDirectory(prefix="standin-context-") as folder:
            context = Path(folder)
            for part in ("image", "mirror", "mock"):
                shutil.copytree(
                    HERE / part,
                    context / part,
                    ignore=shutil.ignore_patterns("__pycache__", "Dockerfile*"),
                )
            for file, text in (more or {}).items():
                (context / file).write_text(text)
            shutil.copy(HERE / "image" / recipe, context / "Dockerfile")
            flags = [word for pair in arguments.items() for word in ("--build-arg", "=".join(pair))]
            engine.run(
                "build",
                "--network",
                network,
                "--force-rm",
                "-t",
                name,
                *flags,
                folder,
                timeout=1200,
            )
    return name


def prune(engine: Engine, keep: set[str]) -> None:
    """Images of older recipes."""
    listed = engine.run("images", "--format", "{{.Repository}}:{{.Tag}}").stdout.split()
    for name in listed:
        if name.startswith("standin-") and name not in keep:
            engine.run("rmi", name, check=False)
