"""A recording with a host's identity and its secrets planted wherever they occur on real hosts."""

from __future__ import annotations

import hashlib
import json
from typing import Any

HOST = "zeus-gpu7"
DOMAIN = "mighty.internal"
USER = "marvin"
GPU = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
MACHINE = "3d1219c7c4c5404aaa1f6d2a48adfda4"
BOOT = "ae8788df-97a6-4b73-a68c-451d1279557e"
SERIAL = "1652823054567"
CHASSIS = "CHS99887766"
MAC = "9c:6b:00:3d:1e:aa"
ADDRESS = "10.77.3.21"
GATEWAY = "192.168.44.1"
ADDRESS6 = "2a01:4f8:c17:b8f::2"
GUID = "7cfe:9003:00ab:cdef"
CONTAINER = "c0ffee" + "0123456789abcdef" * 3 + "deadbeef00"
MIRROR = "artifactory.mighty-corp.com"
REGISTRY = "registry.mighty-corp.com"
ORGANISATION = "mighty-research"
CONTEXT = "prod-mighty"
EMAIL = "marvin.p@mighty-corp.com"
NAS = "nas01"

TOKEN = "hf_" + "QwErTyUiOpAsDfGhJkLz"
NGC_KEY = "nvapi-" + "Zm9vYmFyLWJhei1xdXV4"
API_KEY = "sk-" + "planted0123456789abcdef"
PASSWORD = "s3cr3t-pa55"
PROXY_PASSWORD = "pr0xy-pa55"
BEARER = "bear3r-t0ken-value"
APT_PASSWORD = "apt-p4ss-w0rd"
DOCKER_AUTH = "bWFydmluOnMzY3IzdC1wYTU1"
ENV_VALUE = "postgres-super-plan"

IDENTITIES = (
    HOST, DOMAIN, USER, GPU[4:], MACHINE, BOOT, SERIAL, CHASSIS, MAC, ADDRESS, GATEWAY, ADDRESS6, GUID, CONTAINER,
    CONTAINER[:12], MIRROR, REGISTRY, ORGANISATION, CONTEXT, EMAIL, NAS, "20bd9faed9f6", "mighty",
)  # fmt: skip
SECRETS = (
    TOKEN, NGC_KEY, API_KEY, PASSWORD, PROXY_PASSWORD, BEARER, APT_PASSWORD, DOCKER_AUTH, ENV_VALUE,
)  # fmt: skip

KEPT = (
    "10.13.3.9", "9.10.2.21", "12.4.5.8", "580.95.05", "0000:18:00.0", "96.00.A5.00.01", "GPU-00000001",
    "developer.download.nvidia.com/compute/cuda/repos", "nvcr.io/nvidia/tritonserver:25.01", "SecureBoot-8be4df61",
    "127.0.0.53", "modprobe.blacklist=nouveau", "nvidia-persistenced.service", "0.0.0.0", "vllm/vllm-openai:v0.24.0",
)  # fmt: skip
"""Versions that look like addresses, public names and well-known numbers must survive."""

_CONTEXT_DIGEST = hashlib.sha256(CONTEXT.encode()).hexdigest()


def documents() -> dict[str, Any]:
    """About forty places, each a place where a real host had one."""
    home = f"/home/{USER}"
    return {
        "manifest": {"format": 1, "recorded_at": "2026-11-30T12:00:00+00:00", "host": HOST, "note": "", "missing": "unknown"},
        "files": {path: text.encode() for path, text in _files(home).items()}
        | {"/sys/bus/pci/devices/0000:18:00.0/config": _configuration_space()},
        "paths": {
            "/home": {"type": "dir", "entries": [USER, "ubuntu"]},
            f"{home}/venv": {"type": "dir", "entries": ["bin"]},
            "/etc/systemd/system/engine.service": {"type": "link", "target": f"{home}/engine.service"},
            "/dev/shm": {"type": "dir", "entries": [f"{ORGANISATION}-cache", "nccl-AbCdEf"]},
            f"/dev/shm/{ORGANISATION}-cache": {"type": "file", "size": 5},
            "/opt": {"type": "dir", "entries": ["nvidia", ORGANISATION]},
            "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": {"type": "file"},
        },
        "process": {
            "env": {
                "HF_TOKEN": TOKEN, "VLLM_API_KEY": API_KEY, "DATABASE_PLAN": ENV_VALUE, "HOME": home, "USER": USER,
                "CUDA_VISIBLE_DEVICES": GPU[:12], "HTTPS_PROXY": f"http://{USER}:{PROXY_PASSWORD}@{ADDRESS}:3128",
                "LD_LIBRARY_PATH": f"{home}/lib:/usr/lib", "SUDO_USER": USER,
            },
            "euid": 1000, "rlimits": {"memlock": [-1, -1]}, "sudo": False, "scope": "shell",
        },
        "cmds": _commands(home),
        "nvml": {
            "init": "ok",
            "devices": {"0": GPU},
            "calls": {
                "nvmlDeviceGetUUID": {"[0]": {"value": GPU}},
                "nvmlDeviceGetSerial": {"[0]": {"value": SERIAL}},
                "nvmlDeviceGetGpuFabricInfoV": {"[0]": {"value": {"clusterUuid": [7] * 16, "state": 3}}},
                "nvmlDeviceGetVbiosVersion": {"[0]": {"value": "96.00.A5.00.01"}},
            },
        },
        "cuda": [{"name": "scope", "env": {"LD_LIBRARY_PATH": f"{home}/lib", "SECRET_PLAN": ENV_VALUE}, "lib": f"{home}/lib/libcuda.so.1", "cuInit": 0, "count": 1, "driver_version": 13000, "error": None}],
        "http": _answers(home),
    }  # fmt: skip


def _files(home: str) -> dict[str, str]:
    return {
        "/etc/hostname": HOST + "\n",
        "/proc/sys/kernel/hostname": f"{HOST}.{DOMAIN}\n",
        "/etc/machine-id": MACHINE + "\n",
        "/proc/sys/kernel/random/boot_id": BOOT + "\n",
        "/etc/hosts": f"127.0.0.1 localhost\n{ADDRESS} {HOST}.{DOMAIN} {HOST} db-{ORGANISATION}\n",
        "/etc/resolv.conf": f"nameserver 127.0.0.53\nnameserver {GATEWAY}\nsearch {DOMAIN}\n",
        "/sys/class/dmi/id/product_serial": CHASSIS + "\n",
        "/sys/class/net/eth0/address": MAC + "\n",
        "/sys/class/infiniband/mlx5_0/node_guid": GUID + "\n",
        "/sys/class/infiniband/mlx5_0/node_desc": f"{HOST} mlx5_0\n",
        "/proc/cmdline": f"BOOT_IMAGE=/vmlinuz root=UUID={BOOT} ip={ADDRESS}::{GATEWAY} modprobe.blacklist=nouveau password={PASSWORD}\n",
        "/boot/grub/grub.cfg": f"password_pbkdf2 root grub.pbkdf2.sha512.10000.{'AB' * 20}\n  linux /vmlinuz root=UUID={BOOT} modprobe.blacklist=nouveau cloud={ORGANISATION}\n",
        "/etc/apt/sources.list": f"deb https://{USER}:{APT_PASSWORD}@{MIRROR}/{ORGANISATION}/ubuntu noble main\ndeb https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64 /\n",
        "/etc/apt/auth.conf.d/corp.conf": f"machine {MIRROR} login {USER} password {APT_PASSWORD}\n",
        "/etc/apt/apt.conf.d/80proxy": f'Acquire::http::Proxy "http://{USER}:{PROXY_PASSWORD}@{ADDRESS}:3128";\n',
        "/etc/yum.repos.d/corp.repo": f"[corp]\nbaseurl=https://{MIRROR}/{ORGANISATION}/el9\nusername={USER}\npassword={PASSWORD}\nproxy_password = {PROXY_PASSWORD}\n",
        "/etc/pip.conf": f"[global]\nextra-index-url = https://{USER}:{TOKEN}@{MIRROR}/simple\n",
        "/etc/docker/daemon.json": json.dumps({"runtimes": {"nvidia": {"path": f"{home}/bin/nvidia-container-runtime"}}, "registry-mirrors": [f"https://{REGISTRY}"], "labels": [f"owner={ORGANISATION}"]}),
        f"{home}/.docker/config.json": json.dumps({"currentContext": CONTEXT, "auths": {REGISTRY: {"auth": DOCKER_AUTH}}}),
        f"{home}/.docker/contexts/meta/{_CONTEXT_DIGEST}/meta.json": json.dumps({"Name": CONTEXT, "Endpoints": {"docker": {"Host": f"ssh://{USER}@{HOST}.{DOMAIN}"}}}),
        "/etc/systemd/system/engine.service": f'[Service]\nUser={USER}\nEnvironment="HF_TOKEN={TOKEN}" "PLAN={ENV_VALUE}" "CUDA_HOME={home}/cuda"\nExecStart={home}/venv/bin/vllm serve m --api-key {API_KEY}\nAfter=nvidia-persistenced.service\n',
        "/proc/4242/environ": f"NGC_API_KEY={NGC_KEY}\0PLAN={ENV_VALUE}\0NCCL_DEBUG=INFO\0CUDA_HOME={home}/cuda\0",
        "/proc/4242/cmdline": f"{home}/venv/bin/vllm\0serve\0--api-key\0{API_KEY}\0--port\08000\0",
        "/proc/self/mounts": f"{NAS}:/export/{ORGANISATION} /mnt/models nfs4 rw,addr={ADDRESS},clientaddr={ADDRESS} 0 0\n//{NAS}/share /mnt/s cifs rw,username={USER},password={PASSWORD} 0 0\n/dev/mapper/{ORGANISATION}--vg-root / ext4 rw 0 0\n",
        "/var/lib/dpkg/status": f"Package: libcudnn9-cuda-12\nStatus: install ok installed\nMaintainer: Marvin <{EMAIL}>\nVersion: 9.10.2.21-1\nDescription: made for {ORGANISATION}\n\n",
        "/var/log/apt/history.log": f"Start-Date: 2026-11-29  06:00:00\nCommandline: apt-get install nvidia-driver\nRequested-By: {USER} (1000)\nUpgrade: nvidia-driver-580:amd64 (580.95.05, 580.105.08)\nEnd-Date: x\n",
        "/etc/passwd": f"root:x:0:0:root:/root:/bin/bash\n{USER}:x:1000:1000:Marvin:{home}:/bin/bash\n",
        f"{home}/venv/lib/python3.12/site-packages/tensorrt-10.13.3.9.dist-info/METADATA": f"Name: tensorrt\nVersion: 10.13.3.9\nAuthor-email: {EMAIL}\nRequires-Dist: nvidia-cublas-cu12 (==12.4.5.8)\n\nbuilt by {USER} on {HOST}\n",
        "/proc/driver/nvidia/gpus/0000:18:00.0/information": f"Model: NVIDIA H200\nGPU UUID: \t {GPU}\nVideo BIOS: 96.00.A5.00.01\n",
        "/etc/nvidia-container-runtime/config.toml": f'[nvidia-container-cli]\nroot = "{home}/driver"\nuser = "root:video"\n',
    }  # fmt: skip


def _commands(home: str) -> list[dict[str, Any]]:
    def ran(argv: list[str], out: str, env: dict[str, str] | None = None) -> dict[str, Any]:
        return {"argv": argv, "env": env or {}, "rc": 0, "signal": None, "error": None, "stdout": out.encode(), "stderr": f"{USER}@{HOST}: {API_KEY}".encode(), "ms": 1}  # fmt: skip

    return [
        ran(["dmesg"], f"[1.0] NVRM: loading 580.95.05 on {HOST}\n[2.0] usb 1-1: SerialNumber: {CHASSIS}\n[3.0] audit: cmd by {USER}\n[4.0] mlx5_core 0000:18:00.0 eth0: {MAC}\n"),
        ran(["uname", "-a"], f"Linux {HOST} 6.8.0-79-generic #79 SMP x86_64 GNU/Linux\n"),
        ran(["nvidia-smi", "-q", "-x"], f"<gpu id=\"00000000:18:00.0\"><serial>{SERIAL}</serial><uuid>{GPU}</uuid><vbios_version>96.00.A5.00.01</vbios_version></gpu>"),
        ran(["systemctl", "show", "-p", "Environment", "engine"], f"Environment=HF_TOKEN={TOKEN} PLAN={ENV_VALUE}\n"),
        ran([f"{home}/venv/bin/python", "-c", "x", "--token", TOKEN], f"http://{ADDRESS}:8000 Authorization: Bearer {BEARER}\n", {"HOME": home}),
        ran(["ip", "addr"], f"inet {ADDRESS}/24 brd 10.77.3.255\ninet6 {ADDRESS6}/64 link/ether {MAC}\n"),
        ran(["ibstat"], f"Node GUID: 0x{GUID.replace(':', '')}\n"),
        ran(["modinfo", "nvidia"], f"version: 580.95.05\nsigner: {HOST} Secure Boot Module Signature key\nsig_key: 4B:2F:11:9A:4B:2F:11:9A:4B:2F:11:9A\n"),
    ]  # fmt: skip


def _answers(home: str) -> dict[str, Any]:
    socket = "unix:///var/run/docker.sock GET "
    inspect = {
        "Id": CONTAINER, "Name": f"/{ORGANISATION}-chat", "Image": "sha256:" + "a" * 64, "Owner": USER,
        "Config": {"Image": f"{REGISTRY}/{ORGANISATION}/vllm-chat:v1", "Env": [f"HF_TOKEN={TOKEN}", f"PLAN={ENV_VALUE}", "NVIDIA_VISIBLE_DEVICES=" + GPU], "Cmd": ["--model", "m", "--api-key", API_KEY], "Labels": {"owner": ORGANISATION, "com.nvidia.volumes.needed": "x"}, "Hostname": CONTAINER[:12]},
        "HostConfig": {"Binds": [f"/srv/{ORGANISATION}/models:/models:ro", f"{home}/.cache:/c"], "ShmSize": 67108864, "PortBindings": {"8000/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8000"}]}},
        "NetworkSettings": {"Ports": {"8000/tcp": [{"HostIp": ADDRESS, "HostPort": "8000"}]}, "MacAddress": MAC},
    }  # fmt: skip
    images = [
        {"Id": "sha256:" + "b" * 64, "RepoTags": ["nvcr.io/nvidia/tritonserver:25.01", "vllm/vllm-openai:v0.24.0", f"{REGISTRY}/{ORGANISATION}/cuda:x"], "Labels": {"owner": ORGANISATION}}
    ]  # fmt: skip
    bodies = {
        "/info": {"Name": HOST, "ServerVersion": "28.0", "Labels": [ORGANISATION], "HttpProxy": f"http://{USER}:{PROXY_PASSWORD}@{ADDRESS}", "Runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}},
        f"/containers/{CONTAINER}/json": inspect,
        "/images/json": images,
        "/secrets": [{"Spec": {"Data": PASSWORD}}],
    }  # fmt: skip
    return {
        socket + target: {"status": 200, "body": json.dumps(body).encode()}
        for target, body in bodies.items()
    }


def _configuration_space() -> bytes:
    data = bytearray(4096)
    data[0x100:0x104] = (3 | 1 << 16 | 0x148 << 20).to_bytes(4, "little")
    data[0x104:0x10C] = bytes.fromhex("aa1e3d00006b9cff")
    data[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
    return bytes(data)
