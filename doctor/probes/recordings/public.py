"""Allow-lists: what in a recording is public knowledge or a doctor's business. Everything not listed is cut or renamed."""

import re
from typing import TYPE_CHECKING, Any, Dict, List

from doctor.probes.reading.wheel import is_tracked, normalized

if TYPE_CHECKING:
    from doctor.probes.recordings.pseudonym import Pseudonyms

_PUBLIC_HOSTS = tuple(
    "ubuntu.com canonical.com debian.org launchpad.net launchpadcontent.net nvidia.com nvidia.github.io github.com "
    "docker.com docker.io rockylinux.org centos.org fedoraproject.org redhat.com almalinux.org "
    "oracle.com suse.com opensuse.org python.org pypi.org pythonhosted.org pytorch.org huggingface.co kernel.org k8s.io "
    "ghcr.io quay.io nvcr.io anaconda.org anaconda.com gcr.io mellanox.com freedesktop.org gnu.org "
    "kubernetes.io opensource.org apache.org amazonlinux.com elrepo.org rpmfusion.org opencontainers.org snapcraft.io".split()
)
"""Domains of distributions and vendors; a host below one of them names nobody."""

_PATH_WORDS = re.compile(
    r"(?i)(?:ubuntu(?:-ports|\d+)?|debian(?:-security|\d+)?|rocky(?:linux)?\d*|centos\d*|rhel\d*|el\d+|fedora\d*|almalinux\d*|"
    r"cuda|nvidia|docker|docker-ce|compute|repos?|dists?|pool|linux|stable|experimental|main|universe|deb|rpms?|x86_64|"
    r"amd64|arm64|aarch64|sbsa|os|baseos|appstream|extras|epel|crb|updates|security|libnvidia-container|nvidia-container-toolkit|"
    r"\$\w+(?:\([\w.]*\))?|v?[\d.]+|simple|pypi|whl|cu\d+|apt|yum|dnf|noble|jammy|focal|bookworm|trixie|path-\d+|)\Z"
)

_KERNEL_KEYS = re.compile(
    r"(?:nouveau|nova_core|nvidia[\w-]*|vfio[\w-]*|kvm[\w-]*|module|efi|rd\.driver|modprobe|intel_idle|processor|usbcore|"
    r"amd_pstate|iommu)(?:\.[\w.-]+)?\Z"
    r"|(?:BOOT_IMAGE|ro|rw|quiet|splash|nomodeset|fips|noefi|noapic|nosmt|maxcpus|nr_cpus|mem|crashkernel|mitigations|"
    r"preempt|selinux|enforcing|apparmor|security|lsm|lockdown|audit|module_blacklist|swapaccount|transparent_hugepage|"
    r"pci|pcie_[a-z]+|disable_acs_redir|acpi|pci_\w+|hugepages|hugepagesz|default_hugepagesz|init_on_alloc|init_on_free|isolcpus|"
    r"nomodule|nohz|nohz_full|rcu_nocbs|tsc|clocksource|idle|cgroup_\w+|cgroup_no_v1|numa_balancing|numa|systemd\.unified_cgroup_hierarchy|"
    r"systemd\.legacy_systemd_cgroup_controller|intel_iommu|amd_iommu|intel_pstate|console|net\.ifnames|video|plymouth\.\w+|"
    r"ibt|vsyscall|memhp_default_state|movable_node|slub_debug|page_poison|random\.trust_cpu|earlyprintk|panic|nowatchdog)\Z"
)

_LOG_WORDS = re.compile(
    r"(?i)nvrm|nvidia|xid|nouveau|nova|iommu|dmar|amd-vi|\bacs\b|vfio|secure ?boot|lockdown|module|taint|\bpci|\bbar\b|"
    r"mlx|infiniband|\bib_|gdrdrv|peermem|out of memory|oom-kill|hardware error|\bmce\b|edac|\baer\b|hung task|nvswitch|nvlink|"
    r"gpu|cgroup|hypervisor|tsc|nmi|x\.?509|certificate|linux version|command line|mmio|no space|fabric"
)
"""Kernel log lines that a doctor may want; the others are dropped, because anything may stand in them."""

_LABELS = re.compile(
    r"com\.nvidia\.[\w.]+|org\.opencontainers\.image\.version|vllm[\w.]*|ai\.vllm[\w.]*"
)
_PACKAGE_FIELDS = frozenset(
    "Package Status Version Architecture Source Depends Pre-Depends Recommends Provides Conflicts Breaks Replaces Essential "
    "Config-Version Multi-Arch Section".split()
)
_METADATA_FIELDS = frozenset(
    "Metadata-Version Name Version Requires-Dist Requires-Python Provides-Extra".split()
)
_WHEELS = re.compile(
    r"(?i)(?:__|nvidia|cuda|torch|vllm|tensorrt|trt|triton|flashinfer|flash_attn|xformers|cupy|nccl|cudnn|transformers|tokenizers|"
    r"numpy|pip|setuptools|wheel|pynvml|ray|onnx|safetensors|huggingface|accelerate|sglang|lmdeploy|bitsandbytes|deepspeed|apex|"
    r"functorch|ml_dtypes|polygraphy|modelopt|uv|mpi4py|numba|jax|jaxlib|tensorflow|openai|fastapi|pydantic|msgspec|"
    r"distutils|apt|python_apt|dnf|rpm|six|packaging)[\w.+\-]*\Z"
)
_SHM = re.compile(
    r"(?:nccl-|psm_|torch_|sem\.|vllm|cuda\.|mpi|ompi|ucx|shm|lsm_|mp-|pymp-|nvidia|loky|file-)"
)
FOLDERS = re.compile(
    r"(?i)(?:nvidia|cuda|conda|mini(?:conda|forge)\d*|anaconda\d*|mambaforge|containerd|docker|cni|venvs?|vllm|python|pytorch|"
    r"tensorrt|tensorrt_llm|trtllm|torch|gcc|llvm|hpcx|ompi|openmpi|mellanox|intel|amazon|aws|google|microsoft|rocm|nim|triton(?:server)?|"
    r"nccl|models?|huggingface|hf|ray|uv|ai|ml|bin|lib|etc|[a-z]|wsl|wslg|gpu-host-doctor|path-\d+)(?:[-_.]?[\d.]+)?\Z"
)
"""Folders below /opt, /srv, /mnt, /data whose name says nothing about their owner."""
_IMAGE_HOMES = frozenset(
    "vllm nvidia library pytorch huggingface lmsysorg rocm ollama nvcr.io docker.io ghcr.io quay.io ubuntu debian "
    "rockylinux centos fedora redis postgres prom grafana k8s nginx alpine busybox python vllm-project mirror cuda".split()
)
_ENGINE_WORDS = re.compile(
    r"vllm|tensorrt[-_]?llm|tensorrt|tritonserver|triton|cuda|pytorch|torch|nvidia|sglang|ollama|tgi"
)


def is_public_host(host: str) -> bool:
    """Whether a host name belongs to a distribution or vendor."""
    return (
        host.lower().endswith(tuple("." + end for end in _PUBLIC_HOSTS))
        or host.lower() in _PUBLIC_HOSTS
    )


def public_path(path: str, names: "Pseudonyms") -> str:
    """The path of a URL on a private host: known words stay, other parts are renamed, a query goes."""
    parts = path.split("?", 1)[0].split("#", 1)[0].split("/")
    return "/".join(part if _PATH_WORDS.match(part) else names.name("path", part) for part in parts)


def kernel_arguments(line: str) -> str:
    """Only parameters whose key is on the list."""
    end = "\n" if line.endswith("\n") else ""
    kept = [
        word
        for word in re.findall(r'(?:[^\s"]|"[^"]*")+', line)
        if word in ("-", "--") or _KERNEL_KEYS.match(word.partition("=")[0].replace('"', ""))
    ]
    return " ".join(kept) + end


def log_lines(text: str) -> str:
    """Only lines of a kernel log that a doctor may want. A log of other lines only stays a log that was read."""
    kept = "".join(line for line in text.splitlines(True) if _LOG_WORDS.search(line))
    return kept or (_CUT if text.strip() else text)


_CUT = "[    0.000000] other lines are cut\n"


def labels(value: Any) -> Dict[str, Any]:
    """Only labels that NVIDIA or an engine sets."""
    return (
        {key: item for key, item in value.items() if _LABELS.match(key)}
        if isinstance(value, dict)
        else {}
    )


def package_status(text: str) -> str:
    """/var/lib/dpkg/status without maintainers, descriptions and configuration digests."""
    return _fields(text, _PACKAGE_FIELDS)


def metadata(text: str) -> str:
    """A wheel's METADATA without authors and its page of description."""
    return _fields(text.split("\n\n", 1)[0].rstrip("\n") + "\n", _METADATA_FIELDS)


def _fields(text: str, wanted: "frozenset[str]") -> str:
    kept = []
    keep = False
    for line in text.splitlines(True):
        if line[:1] not in (" ", "\t") and line.strip():
            keep = line.partition(":")[0] in wanted
        if keep or not line.strip():
            kept.append(line)
    return "".join(kept)


def entries(folder: str, names: List[str]) -> List[str]:
    """Names in a folder; private wheels are not told of, those that the probes look for always."""
    if folder.endswith(("/site-packages", "/dist-packages")):
        return [name for name in names if _WHEELS.match(name) or _is_looked_for(name)]
    return names


def _is_looked_for(name: str) -> bool:
    """A package by its metadata's folder, as name-version.dist-info."""
    return name.endswith(".dist-info") and is_tracked(normalized(name.partition("-")[0]))


def shared_memory_name(name: str, names: "Pseudonyms") -> str:
    """A file of /dev/shm: the known families keep their name."""
    return name if _SHM.match(name) else names.name("file", name)


def image(ref: str, names: "Pseudonyms") -> str:
    """An image reference: public ones stay, of private ones the registry and name are renamed and the engine's word kept."""
    name, at, digest = ref.partition("@")
    base, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        base, colon, tag = name, "", ""
    parts = base.split("/")
    public = all(part in _IMAGE_HOMES for part in parts[:-1]) or (
        parts[0] in ("nvcr.io",) and parts[1:2] == ["nvidia"]
    )
    if len(parts) == 1:
        public = (
            parts[0] in _IMAGE_HOMES or re.match(r"(?:sha256|image-\d+|<none>)", ref) is not None
        )
    if public:
        return ref
    registry = ""
    if len(parts) > 1 and (
        "." in parts[0] or ":" in parts[0] or re.match(r"localhost\Z|host-\d+\Z", parts[0])
    ):
        first, _, port = parts.pop(0).partition(":")
        kept = first == "localhost" or is_public_host(first) or names.is_made("host", first)
        registry = (
            (first if kept else names.name("host", first)) + (":" + port if port else "") + "/"
        )
    inner = "/".join(parts)
    if not re.match(r"image-\d+(?:-\w+)*\Z", inner):
        word = _ENGINE_WORDS.search(inner)
        inner = names.name("image", inner) + ("-" + word.group(0) if word else "")
    if colon and not re.match(r"v?\d[\w.+\-]*\Z|latest\Z|nightly\Z|main\Z", tag):
        tag = "tag"
    return registry + inner + colon + tag + at + digest


def place(path: str, names: "Pseudonyms") -> str:
    """A folder of the host that a container mounts: the system's own stay, the owner's are renamed."""
    if not path.startswith("/"):
        return path
    where, colon, rest = path.partition(":")
    if _SYSTEM.match(where):
        return path
    return "/" + names.name("path", where.strip("/")) + colon + rest


_SYSTEM = re.compile(
    r"(?:/|/(?:dev|proc|sys|run|etc|usr|lib|lib64|tmp|boot|root|opt/nvidia|var/(?:run|lib/(?:docker|containerd|kubelet|nvidia)|log)|path-\d+)(?:/.*)?"
    r"|/home/user-\d+(?:/\.cache(?:/huggingface)?)?)\Z"
)
