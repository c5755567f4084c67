"""The shipped matrix answers with what is known true, and with None where nobody knows."""

from __future__ import annotations

import datetime
import re

import pytest

from doctor.facts.versions import ComputeCapability, CudaVersion, DriverVersion
from doctor.matrix import query
from doctor.matrix.model import Gpu, PciDevice

DAY = datetime.date(2026, 11, 30)


def gpu(matrix, name):
    row = query.gpu_by_name(matrix, name)
    assert row is not None, name
    return row


@pytest.mark.parametrize(
    ("cuda", "packaged", "min_run"),
    [
        ("12.4", "550.54.14", "525.60.13"),
        ("12.4.1", "550.54.15", "525.60.13"),
        ("12.1", "530.30.02", "525.60.13"),
        ("13.0", "580.65.06", "580.65.06"),
        ("13.2.2", "595.71.05", "580.65.06"),
        ("11.8", "520.61.05", "450.80.02"),
        ("11.0.2", "450.51.05", "450.36.06"),
    ],
)
def test_two_driver_columns(shipped, cuda, packaged, min_run):
    assert str(query.packaged_driver(shipped, cuda).packaged) == packaged
    assert str(query.min_driver_to_run(shipped, cuda).min_run) == min_run
    assert str(query.toolkit(shipped, cuda).min_run) == min_run


def test_no_packaged_driver_where_only_a_branch_is_named(shipped):
    assert query.packaged_driver(shipped, "13.4") is None
    assert query.toolkit(shipped, "13.4").branch.number == 615


def test_a_toolkit_that_was_never_published(shipped):
    assert query.toolkit(shipped, "12.7") is None
    assert query.toolkit(shipped, "12.4.9") is None
    assert query.min_driver_to_run(shipped, "14.0") is None


def test_installer_and_table_may_differ(shipped):
    row = query.toolkit(shipped, "12.8.0")
    assert (str(row.packaged), str(row.installer)) == ("570.26", "570.86.10")


@pytest.mark.parametrize(
    ("cuda", "driver", "mode"),
    [
        ("13.0", "550.54.14", "refused"),
        ("12.4", "535.104.05", "minor"),
        ("12.4", "580.95.05", "native"),
        ("12.9", "525.60.13", "minor"),
        ("12.0", "520.61.05", "refused"),
        ("13.2", "580.65.06", "minor"),
    ],
)
def test_runs(shipped, cuda, driver, mode):
    answer = query.runs(shipped, cuda, DriverVersion.parse(driver))
    assert answer.mode == mode
    assert shipped.cite(*answer.rows)


def test_native_level(shipped):
    for driver, cuda in [("535.104.05", "12.2"), ("595.71.05", "13.2"), ("580.95.05", "13.0")]:
        assert str(query.native_cuda(shipped, DriverVersion.parse(driver)).cuda) == cuda
    assert query.native_cuda(shipped, DriverVersion.parse("600.10")) is None


@pytest.mark.parametrize(
    ("branch", "ended"), [(535, True), (570, True), (550, True), (580, False), (620, False)]
)
def test_end_of_life(shipped, branch, ended):
    assert query.branch(shipped, branch).is_eol(DAY) is ended


def test_end_of_life_is_judged_on_the_day(shipped):
    row = query.branch(shipped, "R535")
    assert not row.is_eol(datetime.date(2026, 6, 30))
    assert row.is_eol(datetime.date(2026, 7, 1))


@pytest.mark.parametrize(
    ("name", "capability", "last_branch", "last_cuda", "modules"),
    [
        ("NVIDIA H100 80GB HBM3", "9.0", None, None, "supported"),
        ("NVIDIA GH200 480GB", "9.0", None, None, "required"),
        ("NVIDIA B200", "10.0", None, None, "required"),
        ("NVIDIA GB300", "10.3", None, None, "required"),
        ("NVIDIA GB10", "12.1", None, None, "required"),
        ("NVIDIA GeForce RTX 5090", "12.0", None, None, "required"),
        ("Tesla V100-SXM2-32GB", "7.0", "580", "12.9", "unsupported"),
        ("Tesla P40", "6.1", "580", "12.9", "unsupported"),
        ("Tesla K80", "3.7", "470", "11.8", "unsupported"),
        ("Tesla T4", "7.5", None, None, "supported"),
        ("NVIDIA A100-SXM4-80GB", "8.0", None, None, "supported"),
        ("NVIDIA A10G", "8.6", None, None, "supported"),
        ("NVIDIA GeForce RTX 4090", "8.9", None, None, "supported"),
        ("NVIDIA L40S", "8.9", None, None, "supported"),
    ],
)
def test_gpus(shipped, name, capability, last_branch, last_cuda, modules):
    row = gpu(shipped, name)
    assert str(row.compute_capability) == capability
    assert (row.last_branch and str(row.last_branch)) == last_branch
    assert (row.last_cuda and str(row.last_cuda)) == last_cuda
    assert row.open_modules == modules


def test_a_gpu_that_nobody_knows(shipped):
    assert query.gpu_by_name(shipped, "NVIDIA H900") is None
    assert query.gpu_by_pci(shipped, "ffff") is None
    assert query.architecture(shipped, "9.9") is None


@pytest.mark.parametrize("spelt", ["2330", "0x2330", "10de:2330", "10DE:2330"])
def test_a_gpu_by_its_pci_id(shipped, spelt):
    assert query.gpu_by_pci(shipped, spelt).family == "hopper"
    assert query.pci_device(shipped, spelt).name == "NVIDIA H100 80GB HBM3"


def test_an_nvswitch_is_no_gpu(shipped):
    assert query.pci_device(shipped, "22a3").kind == "nvswitch"
    assert query.gpu_by_pci(shipped, "22a3") is None


def test_every_family_knows_its_examples_and_only_them(shipped):
    for row in shipped.rows(Gpu):
        for name in row.examples:
            assert gpu(shipped, name) is row, name
        re.compile(row.names)


def test_names_of_the_drivers_list_are_known(shipped):
    named = [row for row in shipped.rows(PciDevice) if row.basis == "stated" and row.family]
    assert len(named) > 250
    for row in named:
        found = gpu(shipped, row.name)
        assert found.family == row.family
        assert found.compute_capability == row.compute_capability


def test_capabilities_of_gpus_are_targets(shipped):
    for row in shipped.rows(Gpu):
        target = query.architecture(shipped, row.compute_capability)
        assert target is not None
        assert target.sm == row.compute_capability.sm
        assert target.last_cuda == row.last_cuda
        assert row in query.gpus_with(shipped, row.compute_capability)


@pytest.mark.parametrize(
    ("name", "branch", "flavor"),
    [
        ("NVIDIA B200", "580", "open"),
        ("NVIDIA H100 PCIe", "580", "either"),
        ("NVIDIA H100 PCIe", "620", "open"),
        ("Tesla V100-SXM2-32GB", "580", "proprietary"),
        ("Tesla V100-SXM2-32GB", "620", "none"),
        ("Tesla T4", "470", "proprietary"),
    ],
)
def test_module_flavor(shipped, name, branch, flavor):
    assert query.module_flavor_required(shipped, gpu(shipped, name), branch).flavor == flavor


def test_drivers_and_gpus(shipped):
    assert query.supports(shipped, gpu(shipped, "Tesla V100-SXM2-32GB"), 580)
    assert not query.supports(shipped, gpu(shipped, "Tesla V100-SXM2-32GB"), 590)
    assert not query.supports(shipped, gpu(shipped, "NVIDIA B200"), DriverVersion("570.26"))
    assert query.supports(shipped, gpu(shipped, "NVIDIA GB10"), "580") is None


@pytest.mark.parametrize(
    ("names", "branch"),
    [
        (["NVIDIA H100 80GB HBM3"], 620),
        (["Tesla V100-SXM2-32GB"], 580),
        (["Tesla V100-SXM2-32GB", "Tesla T4"], 580),
        (["NVIDIA GeForce RTX 4090"], 620),
    ],
)
def test_newest_supported_branch(shipped, names, branch):
    found = query.newest_supported_branch(shipped, [gpu(shipped, name) for name in names], DAY)
    assert found.branch.number == branch


def test_no_branch_is_both_old_and_new_enough(shipped):
    both = [gpu(shipped, "Tesla K80"), gpu(shipped, "NVIDIA B200")]
    assert query.newest_supported_branch(shipped, both, DAY) is None


def test_newest_branch_of_a_distribution_that_cuda_dropped(shipped):
    focal = query.distribution(shipped, "ubuntu", "20.04")
    found = query.newest_supported_branch(shipped, [gpu(shipped, "Tesla T4")], DAY, focal)
    assert found is None  # CUDA 12.9 is its last, and every branch up to it has ended


@pytest.mark.parametrize(
    ("cuda", "driver", "name", "possible"),
    [
        ("13.0", "550.54.14", "NVIDIA H100 PCIe", True),
        ("13.0", "545.23.08", "NVIDIA H100 PCIe", False),
        ("13.0", "550.54.14", "NVIDIA GeForce RTX 4090", False),
        ("13.0", "550.54.14", "Tesla V100-SXM2-32GB", False),
        ("13.0", "550.54.14", "NVIDIA RTX A6000", None),
        ("13.3", "580.95.05", "NVIDIA H100 PCIe", None),
    ],
)
def test_forward_compat(shipped, cuda, driver, name, possible):
    answer = query.forward_compat(shipped, cuda, DriverVersion.parse(driver), gpu(shipped, name))
    assert answer.possible is possible
    assert answer.package == f"cuda-compat-{cuda.replace('.', '-')}"
    assert answer.why


def test_vllm(shipped):
    row = query.vllm(shipped, "0.27.1+cu129")
    assert (str(row.torch), str(row.cuda), str(row.min_driver)) == ("==2.13.0", "13.0", "580.65.06")
    assert str(query.vllm(shipped, "0.19.1").min_compute_capability) == "7.0"
    assert str(query.vllm(shipped, "0.20.0").min_compute_capability) == "7.5"
    assert query.vllm(shipped, "99.0") is None
    newest = query.vllm_satisfying(shipped, "<0.20")
    assert str(newest[0].version) == "0.19.1"
    assert query.vllm_satisfying(shipped, ">=99") == ()


def test_every_vllm_release_since_0_2_7_is_there(shipped):
    assert len(shipped.table("vllm")) >= 84


def test_tensorrt_llm_and_torch(shipped):
    row = query.tensorrt_llm(shipped, "1.2.1")
    assert (str(row.tensorrt), str(row.torch), str(row.cuda)) == ("10.14.1", "2.9.1", "13.1")
    assert str(query.tensorrt_llm_satisfying(shipped, ">=1.2")[0].version) == "1.2.1"
    newest = query.tensorrt_llm_satisfying(shipped, ">=1.2", prereleases=True)
    assert newest[0].version.is_prerelease
    assert str(query.torch(shipped, "2.11.0+cu128").cuda) == "13.0"
    assert {row.index for row in query.torch_builds(shipped, "2.11.0")} == {
        "cu126",
        "cu128",
        "cu130",
    }


def test_nccl(shipped):
    assert "arm-cas" in {row.id for row in query.nccl_known_bad(shipped, "2.28.9", "aarch64")}
    assert "arm-cas" not in {row.id for row in query.nccl_known_bad(shipped, "2.28.9", "x86_64")}
    assert not query.nccl_known_bad(shipped, "2.29.7", "gb10")
    (cumem,) = query.nccl_behaviour(shipped, "2.28.9", "cumem-host")
    assert str(cumem.driver_cuda_min) == "12.6"
    assert query.nccl(shipped, "2.28.9") is not None
    assert query.nccl_floor(shipped, "H100 SXM5", 8, "nvswitch")[0].busbw_gb_s == 460.0


@pytest.mark.parametrize(
    ("version", "mode", "has", "has_not"),
    [
        ("1.16.1", "legacy", "CVE-2024-0132", "CVE-2025-23266"),
        ("1.16.1", "cdi", "CVE-2025-23266", "CVE-2024-0132"),
        ("1.17.7", "legacy", "CVE-2025-23266", "CVE-2025-23359"),
        ("1.19.0", "legacy", "CVE-2026-24260", "CVE-2025-23266"),
    ],
)
def test_vulnerabilities_by_mode(shipped, version, mode, has, has_not):
    found = {row.cve for row in query.toolkit_cves(shipped, version, mode)}
    assert has in found
    assert has_not not in found


def test_a_toolkit_without_known_vulnerability(shipped):
    assert query.toolkit_cves(shipped, "1.19.1") == ()
    assert len(query.toolkit_cves(shipped, "1.16.1")) == 10


@pytest.mark.parametrize(
    ("ident", "version", "key", "repository"),
    [
        ("rocky", "9.6", "rhel/9", "rhel9"),
        ("almalinux", "10.1", "rhel/10", "rhel10"),
        ("ubuntu", "24.04", "ubuntu/24.04", "ubuntu2404"),
        ("debian", "13", "debian/13", "debian13"),
        ("amzn", "2023", "amzn/2023", "amzn2023"),
        ("opensuse-leap", "15.6", "opensuse-leap/15", None),
    ],
)
def test_distributions(shipped, ident, version, key, repository):
    row = query.distribution(shipped, ident, version)
    assert row.key == key
    known = query.repository(shipped, row)
    assert (known.codename if known else None) == repository
    assert query.distribution(shipped, "centos", "6") is None


def test_no_fingerprint_is_made_up(shipped):
    rhel10 = query.repository(shipped, "rhel10")
    assert rhel10.fingerprint is None
    assert rhel10.note
    for name in ("ubuntu2404", "rhel9"):
        assert re.fullmatch(r"[0-9A-F]{40}", query.repository(shipped, name).fingerprint)


def test_the_toolkits_repository(shipped):
    deb = query.repository(shipped, "nvidia-container-toolkit", "deb")
    rpm = query.repository(shipped, "nvidia-container-toolkit", "rpm")
    assert deb.url.endswith("/stable/deb")
    assert rpm.url.endswith(".repo")
    assert deb.fingerprint == rpm.fingerprint


def test_a_distribution_that_was_dropped_gets_no_branch(shipped):
    old = query.distribution(shipped, "centos", "7")
    assert old.supported is False
    assert query.newest_supported_branch(shipped, [gpu(shipped, "Tesla T4")], DAY, old) is None


def test_driver_packages(shipped):
    noble = query.distribution(shipped, "ubuntu", "24.04")
    archive = query.driver_packages(shipped, noble, flavor="open", archive="distribution")
    assert "nvidia-driver-580-server-open" in {p for row in archive for p in row.packages}
    rocky = query.distribution(shipped, "rocky", "10.1")
    (old,) = query.driver_packages(shipped, rocky, flavor="proprietary")
    assert old.packages == ("cuda-drivers",)
    (only,) = query.driver_packages(shipped, rocky, flavor="open")
    assert only.packages == ("nvidia-open",)
    assert only.dnf_stream is None


def test_small_tables(shipped):
    assert query.host_compiler(shipped, "12.8.1").gcc_max == "14"
    assert query.host_compiler(shipped, "13.4").gcc_max == "16"
    assert query.host_compiler(shipped, "12.7") is None
    assert query.xid(shipped, 79).severity == "fatal"
    assert query.xid(shipped, 9999) is None
    assert str(query.model_architecture(shipped, "Qwen3ForCausalLM").first_vllm) == "0.8.4"
    assert query.model_architecture(shipped, "NobodysModel") is None
    assert query.container_engine(shipped, "docker").cdi_since is not None
    assert "hook" in query.container_compat(shipped, "1.18.0").behaviour
    assert query.known_issues(shipped, "driver.library-mismatch")
    assert query.jetson(shipped, "38.4.1").l4t == "38.4"


def test_options(shipped):
    assert "24" not in query.option_values(shipped, "vllm serve", "--block-size", "0.10.0").values
    assert query.option_values(shipped, "vllm serve", "--block-size", "0.27.1").interval == ">=1"
    assert query.engine_option(shipped, "vllm serve", "--swap-space", "0.17.1") is not None
    assert query.engine_option(shipped, "vllm serve", "--swap-space", "0.18.0") is None
    removed = query.engine_options(shipped, "vllm serve", "--worker-use-ray")
    assert removed[0].replaced_by
    env = query.engine_environment(shipped, "vllm", "NCCL_CUMEM_ENABLE", "0.9.0")
    assert env.set_by_engine == "0"


def test_the_captured_image_is_the_row(shipped):
    row = shipped.index("forward_compat")["13.0"]
    assert row.require.startswith("cuda>=13.0 brand=unknown,driver>=535,driver<536 brand=grid,")
    accepted = query.require_cuda(
        row.require, DriverVersion("550.90.07"), CudaVersion("12.4"), "tesla"
    )
    assert accepted.satisfied


def test_capabilities_compare_as_numbers(shipped):
    assert ComputeCapability.parse("10.0") > ComputeCapability.parse("9.0")
