"""The toolkit's version, where it comes from, and what of the engine's configuration is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.facts.model import Known, known_or
from doctor.facts.versions import Pep440Version
from doctor.matrix import query, want_query
from doctor.plan.pick import ENGINE, TOOLKIT
from doctor.plan.role_vars import ByHandError, UndecidedError

PACKAGES = [
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
]

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    origin = facts.container.docker_from
    if isinstance(origin, Known) and origin.value in ("snap", "desktop"):
        raise ByHandError(f"Docker from {origin.value} does not take the toolkit's runtime")
    if known_or(facts.container.docker_rootless, False):
        raise ByHandError("a rootless Docker is its owner's to configure")
    found: dict[str, Any] = {
        "container_toolkit_version": _version(facts, target, matrix),
        "container_toolkit_packages": PACKAGES,
        "container_toolkit_engine": _engine(facts, target),
        **_repository(facts, matrix),
    }
    config = known_or(facts.container.toolkit_config, {})
    if config.get("nvidia-container-cli.no-cgroups") is True:
        found["container_toolkit_no_cgroups"] = False
    named = known_or(facts.container.daemon_json, {}).get("runtimes")
    known = facts.container.docker_runtimes
    if isinstance(named, dict) and isinstance(known, Known):
        missing = sorted(set(named) - set(known.value))
        if missing:
            found["container_toolkit_runtimes"] = missing
    return found


def _version(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> str:
    """The target's; else the one that is here, if it is whole and no flaw of it is known; else the newest."""
    row = target.get(TOOLKIT)
    if row is not None and Pep440Version.maybe(row.want) is not None:
        return row.want
    packages = known_or(facts.container.toolkit_packages, {})
    here = known_or(facts.container.toolkit_version, None)
    whole = len({version for version in packages.values() if version}) <= 1
    newest = want_query.container_toolkits_newest_first(matrix)
    if not newest:
        raise UndecidedError("the matrix names no release of the toolkit")
    parsed = Pep440Version.maybe(here) if here else None
    old = parsed is None or not whole or bool(query.toolkit_cves(matrix, parsed))
    return newest[0].version.raw if old or here is None else here


def _engine(facts: Facts, target: Mapping[str, Target]) -> str:
    """The engine that is there, or comes with the same plan."""
    row = target.get(ENGINE)
    if row is not None and row.want.partition(" ")[0] == "docker":
        return "docker"
    if isinstance(facts.container.docker_from, Known) or isinstance(
        facts.container.docker_version, Known
    ):
        return "docker"
    return "containerd" if isinstance(facts.container.containerd_version, Known) else "none"


def _repository(facts: Facts, matrix: Matrix) -> dict[str, Any]:
    """Nothing where it is configured and its key is there."""
    repositories = facts.packages.repositories.value
    own = [
        row
        for row in repositories
        if row.enabled and "nvidia.github.io/libnvidia-container" in row.url
    ]
    keys = {row.key for row in own}
    if own and len(keys) == 1 and all(row.key_found is not False for row in own):
        return {}
    deb = facts.packages.manager.value == "apt"
    row = query.repository(matrix, "nvidia-container-toolkit", "deb" if deb else "rpm")
    if row is None or row.url is None:
        raise UndecidedError("the matrix has no repository of the toolkit")
    base = row.url.rpartition("/")[0] if row.url.endswith(".repo") else row.url
    found: dict[str, Any] = {
        "container_toolkit_repository": f"{base}/$(ARCH) /" if deb else f"{base}/$basearch",
        "container_toolkit_stale_lists": sorted({item.file for item in own if item.file}),
    }
    if row.key_url:
        found["container_toolkit_key"] = row.key_url
    if row.fingerprint:
        found["container_toolkit_key_fingerprint"] = row.fingerprint
    return found
