"""Each role on a host that needs it: the finding goes, the rest stays, and undo brings it back."""

from __future__ import annotations

import pytest

from tests.playbooks.conftest import Start
from tests.playbooks.standins import faults, states
from tests.playbooks.standins.fixing import (
    EVERYTHING,
    after_reboot,
    cured,
    fix,
    only,
    passes,
    planned,
    undo,
    wrong,
)
from tests.playbooks.standins.host import B200, B300, RTX_4090, Host, gpu_table

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
FLAVORS = pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])


@pytest.mark.cures(
    "container.cdi-stale",
    "container.cdi-spec-too-new",
    "container.cdi-missing-paths",
    "container.persistenced-socket",
    "container.daemon-not-restarted",
    "container.no-cgroups",
    "container.device-cgroup-lost",
)
@FLAVORS
def test_containers_get_their_devices(start: Start, flavor: str) -> None:
    with start(flavor, gpus=2) as host:
        states.install_driver(host)
        states.install_docker(host)
        states.install_toolkit(host)
        cured(host, faults.cdi_of_another_driver)
        cured(host, faults.cdi_of_files_that_went)
        done = cured(host, faults.docker_of_before)
        undo(host, done.run, "--allow", EVERYTHING)
        assert "container.no-cgroups" in wrong(host)
        fix(host, "--only", "container.no-cgroups", "--allow", EVERYTHING)
        cured(host, faults.systemd_without_links)


@pytest.mark.cures("shm.too-small-for-nccl")
@FLAVORS
def test_memory_between_processes_becomes_enough(start: Start, flavor: str) -> None:
    with start(flavor, gpus=2) as host:
        states.install_driver(host)
        done = cured(host, faults.small_shared_memory)
        assert host.run("findmnt -n -o SIZE /dev/shm").stdout.strip() != "64M"
        undo(host, done.run)
        assert "/dev/shm" not in host.read("/etc/fstab")


@FLAVORS
def test_limit_that_the_kernel_refuses_is_taken_back(start: Start, flavor: str) -> None:
    """A container may not raise a hard limit: with the limit written down nobody could log in any more."""
    with start(flavor) as host:
        states.install_driver(host)
        host.logs_in = True
        planted = faults.locked_memory(host)
        assert planted <= wrong(host)
        done = fix(host, *only(planted), "--allow", EVERYTHING)
        assert (done.code, done.findings()["limits.memlock"]) == (4, "failed"), done.failures()
        assert not host.exists("/etc/security/limits.d/95-gpu-host-doctor.conf")
        assert planted <= wrong(host)


@pytest.mark.cures(
    "service.persistenced",
    "driver.persistence-off",
    "container.daemon-unreachable",
    "container.cdi-refresh",
    "nccl.copies-differ",
    "toolkit.missing-nvcc",
    "shm.size",
    "shm.docker-default",
    "kernel.headers-gone",
)
@FLAVORS
def test_warnings_go_too(start: Start, flavor: str) -> None:
    with start(flavor, gpus=2) as host:
        states.install_driver(host)
        states.install_docker(host)
        states.install_toolkit(host)
        cured(host, faults.daemons_off)
        cured(
            host,
            faults.nccl_of_another_version,
            faults.headers_gone,
            faults.flashinfer_without_kernels,
        )
        host.run("mount -o remount,size=512m /dev/shm")
        cured(host, lambda host: {"shm.size", "shm.docker-default"})


@pytest.mark.cures(
    "driver.not-loaded",
    "driver.device-node-missing",
    "cuda.libcuda-stub",
    "cuda.libcuda-compat",
    "cuda.libcuda-not-found",
)
@FLAVORS
def test_programs_find_the_drivers_library_and_its_nodes(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        states.install_driver(host)
        cured(host, faults.module_taken_out)
        cured(host, faults.node_taken_away)
        done = cured(host, faults.stub_before_the_driver)
        undo(host, done.run)
        assert "cuda.libcuda-stub" in wrong(host)
        host.run("rm /etc/ld.so.conf.d/00-cuda-stubs.conf && ldconfig")
        cured(host, faults.compat_before_the_driver)
        cured(host, faults.link_taken_away)


@pytest.mark.cures(
    "fabric.manager-missing",
    "fabric.manager-not-running",
    "fabric.manager-version",
    "fabric.not-ready",
)
@FLAVORS
def test_fabric_manager_is_the_drivers_and_runs(start: Start, flavor: str) -> None:
    with start(flavor, files={"/etc/standin/switches": "0000:1c:00.0\n"}) as host:
        states.install_driver(host)
        done = cured(host, lambda host: {"fabric.manager-missing"})
        assert host.findings()["fabric.not-ready"]["outcome"] == "pass"

        def stopped(host: Host) -> set[str]:
            host.run("systemctl disable -q --now nvidia-fabricmanager")
            return {"fabric.manager-not-running"}

        cured(host, stopped)

        def waiting(host: Host) -> set[str]:
            host.run("rm /run/standin/fabric")
            return {"fabric.not-ready"}

        cured(host, waiting)
        undo(host, done.run, "--allow", EVERYTHING)
        host.run("systemctl disable -q --now nvidia-fabricmanager || true")
        assert "fabric.manager-missing" in wrong(host)

        def another_version(host: Host) -> set[str]:
            old = states.driver_versions()["archive"][-1]
            host.install(
                f"nvidia-fabricmanager={old}-0ubuntu1"
                if host.family == "debian"
                else f"nvidia-fabricmanager-{old}"
            )
            return {"fabric.manager-version"}

        cured(host, another_version)


@pytest.mark.cures(
    "cuda.driver-too-old",
    "engine.vllm-cuda-vs-driver",
    "engine.trtllm-driver",
    "container.require-cuda",
    "container.image-cuda",
    "want.image-require",
    "cuda.compat-on-unsupported-gpu",
)
@FLAVORS
def test_driver_of_cuda_12_gives_way_to_what_images_and_engines_need(
    start: Start, flavor: str
) -> None:
    with start(flavor, files={"/etc/standin/gpus": gpu_table(1, RTX_4090)}) as host:
        states.install_driver(host, states.driver_versions()["drivers"][0])
        states.install_docker(host)
        want = ("--want", "image:nvidia/requires:1")

        alone = (
            (faults.vllm_of_cuda_13, "rm -r /opt/vllm"),
            (faults.tensorrt_llm_of_cuda_13, "rm -r /opt/tensorrt-llm"),
            (faults.image_with_cuda_13, "docker rmi nvidia/has:1"),
            (faults.torch_of_cuda_13, "rm -r /opt/torch"),
        )
        for plant, away in alone:
            (name,) = plant(host)
            assert name in wrong(host)
            assert name in planned(host)["nvidia_driver"]
            host.run(away)
        roots = {"want.image-require", *faults.image_that_requires_cuda_13(host)}
        assert roots <= wrong(host, *want)
        all_of_them = roots.union(*(plant(host) for plant, _ in alone))
        done = fix(host, *want, *only(roots), "--allow", EVERYTHING)
        if done.code == 5:
            done = after_reboot(host, done.run)
        assert {name: done.findings().get(name) for name in roots} == dict.fromkeys(
            roots, "verified"
        ), done.failures()
        passes(host, all_of_them, *want)
        assert states.newest() in host.out("nvidia-smi"), done.failures()
        cured(host, faults.compat_before_the_driver)


@pytest.mark.cures("driver.wrong-module-flavor")
@FLAVORS
def test_boards_that_only_open_modules_drive_get_them(start: Start, flavor: str) -> None:
    with start(flavor, files={"/etc/standin/gpus": gpu_table(1, B200)}) as host:
        version = states.driver_versions()["archive"][-1]
        states.add_cuda_repository(host)
        if host.family == "debian":
            host.write(
                "/run/standin/pins",
                f"Package: *nvidia* *cuda*\nPin: version {version}-*\nPin-Priority: 1001\n",
            )
            host.run(
                "apt-get -qq -y -o Dir::Etc::preferences=/run/standin/pins install cuda-drivers-580"
            )
        else:
            if flavor == "rocky9":
                host.run("dnf -q -y module enable nvidia-driver:580-dkms")
            host.run(f"dnf -q -y install cuda-drivers-3:{version}")
        host.reboot()
        cured(host, lambda host: {"driver.wrong-module-flavor"})
        assert "NVIDIA B200" in host.out("nvidia-smi -L")


@pytest.mark.parametrize(
    "flavor",
    [
        pytest.param("rocky9", marks=pytest.mark.cures("packages.dkms-too-old")),
        pytest.param("rocky10", marks=pytest.mark.cures("packages.modular-filtering")),
    ],
)
def test_dnf_shows_the_driver_and_what_it_needs(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        code = states.CODES[flavor]
        states.fetch(
            host,
            f"{states.repository(host)}/cuda-{code}.repo",
            f"/etc/yum.repos.d/cuda-{code}.repo",
        )
        planted = wrong(host) & {"packages.modular-filtering", "packages.dkms-too-old"}
        assert planted == {
            "packages.dkms-too-old" if flavor == "rocky9" else "packages.modular-filtering"
        }
        done = fix(host, "--allow", EVERYTHING)
        assert done.code == 5, done.failures()
        done = after_reboot(host, done.run)
        assert done.code == 0, done.failures()
        assert {done.findings()[name] for name in planted} == {"verified"}, done.failures()
        assert not wrong(host) & {"packages.modular-filtering", "packages.dkms-too-old"}


@pytest.mark.cures("driver.gpu-not-supported")
@FLAVORS
def test_boards_that_the_branch_does_not_know_get_one_that_does(start: Start, flavor: str) -> None:
    with start(flavor, files={"/etc/standin/gpus": gpu_table(1, B300)}) as host:
        states.install_driver(host, states.driver_versions()["drivers"][0])
        cured(host, lambda host: {"driver.gpu-not-supported"})
        assert "NVIDIA B300" in host.out("nvidia-smi -L")


@pytest.mark.cures("kernel.dkms-failed", "kernel.compiler-mismatch", "driver.no-module-for-kernel")
@FLAVORS
def test_module_that_is_missing_is_built_or_installed(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        states.install_driver(host)
        cured(host, faults.module_not_built)
        cured(host, faults.compiler_not_here)
        cured(host, faults.libraries_alone)


@pytest.mark.cures("packages.mixed-repositories")
@FLAVORS
def test_packages_of_two_origins_become_those_of_one(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        cured(host, faults.module_of_another_origin)
        assert states.newest() in host.out("nvidia-smi")


@pytest.mark.cures("container.toolkit-too-old")
@FLAVORS
def test_toolkit_of_before_cgroup_v2_is_replaced(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        states.install_driver(host)
        states.install_docker(host)
        cured(host, faults.toolkit_of_before_cgroup_v2)
        assert "nvidia" in host.out("docker info -f '{{json .Runtimes}}'")


@pytest.mark.cures("wsl.linux-driver-installed")
@pytest.mark.parametrize("flavor", ["wsl2"])
def test_linux_driver_leaves_wsl2_and_the_windows_drivers_libraries_stay(
    start: Start, flavor: str
) -> None:
    with start(flavor) as host:
        before = host.out("sha256sum /usr/lib/wsl/lib/*")

        def linux_driver(host: Host) -> set[str]:
            host.install("nvidia-utils-580-server")
            return {"wsl.linux-driver-installed"}

        cured(host, linux_driver)
        assert host.out("sha256sum /usr/lib/wsl/lib/*") == before
