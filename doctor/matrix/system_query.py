"""Pure questions about what surrounds the driver. Ask through `query`, which re-exports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from doctor.facts.versions import CudaVersion
from doctor.matrix.model import (
    ContainerCompat,
    ContainerCve,
    ContainerEngine,
    ContainerToolkit,
    Distribution,
    DriverPackages,
    HostCompiler,
    Jetson,
    KnownIssue,
    ModuleFlavor,
    Repository,
)

if TYPE_CHECKING:
    from doctor.facts.versions import Pep440Version
    from doctor.matrix.matrix import Matrix


def distribution(matrix: Matrix, ident: str, version: str) -> Distribution | None:
    """A release by os-release's ID and VERSION_ID; "9.6" is also "9", Rocky is like RHEL."""
    rows = [row for row in matrix.rows(Distribution) if ident == row.id or ident in row.like]
    for text in (version, version.partition(".")[0]):
        own = [row for row in rows if row.version == text]
        if own:
            return next((row for row in own if row.id == ident), own[0])
    return None


def repository(
    matrix: Matrix, where: Distribution | str, package_format: str | None = None
) -> Repository | None:
    """NVIDIA's current repository for a distribution or codename, and the key that signs it.

    "nvidia-container-toolkit" names the toolkit's own, which exists as deb and as rpm.
    """
    codename = where if isinstance(where, str) else where.repository
    return next(
        (
            row
            for row in matrix.rows(Repository)
            if row.codename == codename
            and row.status == "current"
            and package_format in (None, row.format)
        ),
        None,
    )


def driver_packages(
    matrix: Matrix,
    where: Distribution,
    *,
    flavor: ModuleFlavor | None = None,
    archive: str | None = None,
) -> tuple[DriverPackages, ...]:
    """The package sets that install a driver, of one flavour and archive if asked."""
    return tuple(
        row
        for row in matrix.rows(DriverPackages)
        if row.distribution == where.key
        and (flavor is None or row.flavor == flavor)
        and (archive is None or row.archive == archive)
    )


def host_compiler(matrix: Matrix, cuda: CudaVersion | str) -> HostCompiler | None:
    """The host compilers that nvcc of a CUDA release accepts."""
    want = cuda if isinstance(cuda, CudaVersion) else CudaVersion.parse(cuda)
    return matrix.find(HostCompiler, want.release.raw)


def jetson(matrix: Matrix, l4t: str) -> Jetson | None:
    """A Jetson Linux release by its number, "36.4.3", or the release line it belongs to."""
    return matrix.find(Jetson, l4t) or matrix.find(Jetson, ".".join(l4t.split(".")[:2]))


def known_issues(matrix: Matrix, finding: str | None = None) -> tuple[KnownIssue, ...]:
    """The known faults that a finding proves, or all."""
    return tuple(
        row for row in matrix.rows(KnownIssue) if finding is None or row.finding == finding
    )


# Containers


def container_toolkit(matrix: Matrix, version: Pep440Version | str) -> ContainerToolkit | None:
    """A release of the NVIDIA Container Toolkit."""
    return matrix.find(ContainerToolkit, str(version))


def toolkit_cves(
    matrix: Matrix, version: Pep440Version | str, mode: Literal["cdi", "legacy"] | None = None
) -> tuple[ContainerCve, ...]:
    """The vulnerabilities of a toolkit in the mode in use; without a mode, of any mode."""

    def hits(row: ContainerCve) -> bool:
        affected = row.affected
        if mode in row.not_affected_modes:
            return False
        if mode == "legacy" and row.affected_in_legacy is not None:
            affected = row.affected_in_legacy
        return affected.contains(version)

    return tuple(row for row in matrix.rows(ContainerCve) if hits(row))


def container_engine(matrix: Matrix, engine: str) -> ContainerEngine | None:
    """What docker, podman, containerd or cri-o can do with GPUs, and since when."""
    return matrix.find(ContainerEngine, engine)


def container_compat(matrix: Matrix, version: Pep440Version | str) -> ContainerCompat | None:
    """What a toolkit does with the compat libraries of an image."""
    return next(
        (row for row in matrix.rows(ContainerCompat) if row.versions.contains(version)), None
    )
