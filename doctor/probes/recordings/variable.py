"""Which environment variables a recording may hold. A light module: every recorded host asks it."""

from typing import Dict, List

_STARTS = tuple(
    "CUDA_ NVIDIA_ NCCL_ NV_ VLLM_ TORCH_ TORCHINDUCTOR_ PYTORCH_ TRTLLM_ TLLM_ TENSORRT_ TRT_ UCX_ OMP_ MKL_ OMPI_MCA_ UCC_ "
    "SHARP_ GLOO_ FLASHINFER_ TRITON_ RAY_ CUDNN_ CUBLAS_ NUMBA_ MELLANOX_ XLA_ TOKENIZERS_ HF_HUB_ LC_".split()
)
_NAMES = frozenset(
    "LD_LIBRARY_PATH LD_PRELOAD LD_AUDIT PATH HOME LANG TERM SHELL NO_COLOR COLUMNS HF_HOME HF_ENDPOINT "
    "TRANSFORMERS_CACHE TRANSFORMERS_OFFLINE XDG_RUNTIME_DIR XDG_CACHE_HOME XDG_CONFIG_HOME DOCKER_HOST DOCKER_CONTEXT "
    "DOCKER_CONFIG CONTAINER_HOST PYTHONPATH PYTHONHOME VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV UV_PROJECT_ENVIRONMENT "
    "SUDO_UID SUDO_GID SUDO_USER SUDO_COMMAND WSL_DISTRO_NAME WSL_INTEROP WSL2_GUI_APPS_ENABLED container KUBERNETES_PORT "
    "KUBERNETES_SERVICE_HOST http_proxy https_proxy HTTP_PROXY HTTPS_PROXY no_proxy NO_PROXY all_proxy ALL_PROXY MODULEPATH "
    "LOADEDMODULES CC CXX CUDAHOSTCXX CPATH LIBRARY_PATH TMPDIR SLURM_JOB_ID SLURM_GPUS SLURM_JOB_GPUS GPU_DEVICE_ORDINAL "
    "HF_TOKEN HUGGING_FACE_HUB_TOKEN NGC_API_KEY NGC_CLI_API_KEY OPENAI_API_KEY API_KEY".split()
)


def may_be_recorded(name: str) -> bool:
    """Whether it decides something about GPUs, engines or where things live; of a secret one only that it is set is kept."""
    return name in _NAMES or (name.startswith(_STARTS) and name.upper() == name)


def allowed(env: Dict[str, str]) -> Dict[str, str]:
    """Only variables that may be recorded."""
    return {name: value for name, value in env.items() if may_be_recorded(name)}


def assignments(items: List[str]) -> List[str]:
    """The same for NAME=VALUE items."""
    return [item for item in items if may_be_recorded(item.partition("=")[0])]
