"""The device nodes that a CUDA program opens: there, devices, and of the module's major number."""

from __future__ import annotations

import re
import shlex

from doctor.checks.areas.subject import counted, elsewhere, inside
from doctor.checks.base import ERROR, Fix, Result, check, failed, passed, seen
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.driver import Node
from doctor.facts.model import Known, known_or
from doctor.facts.tree import Facts

CONTROL, UVM = "/dev/nvidiactl", "/dev/nvidia-uvm"
CREATE = "sudo modprobe nvidia_uvm && sudo nvidia-modprobe -c 0 -u"


@check(
    "driver.device-node-missing",
    title="The device nodes are there and are devices",
    severity=ERROR,
    needs=("driver.not-loaded", "container.device-missing"),
    reads=(
        "host.hardware",
        "host.container",
        "driver.loaded",
        "driver.nodes",
        "driver.uvm_major",
        "driver.modprobe",
        "cuda.scope",
        "pci.gpus",
        "nvml.gpus",
    ),
    sources=("nvidia-modprobe-manual", "nixpkgs#334180", "measured-h200x2"),
    fix=Fix("make the nodes", command=CREATE, disturbs="none", remedy="persistence"),
)
def node_missing(f: Facts, k: Knowledge) -> Result:
    """nvidiactl, nvidia-uvm and a node per GPU; what nvidia-modprobe makes on first use is not missing."""
    skip = elsewhere(f)
    if skip:
        return skip
    nodes = f.driver.nodes.value
    cuda = f.cuda.scope.value if isinstance(f.cuda.scope, Known) else None
    if cuda is not None and cuda.code == 0:
        return passed(f"cuInit opened them: {counted(len(nodes), 'node')} under /dev")
    loaded = f.driver.loaded.value
    wrong = [path for path in sorted(nodes) if nodes[path].type != "char"]
    stale = _stale(f, nodes)
    missing = [path for path in (CONTROL, UVM) if path not in nodes] + _gpu_nodes(f, nodes)
    if wrong:
        return _not_devices(f, nodes, wrong)
    if stale:
        return failed(
            stale,
            want="the major number that /proc/devices names",
            say="make the node anew; a container has to be started again",
            command=f"sudo rm {UVM} {UVM}-tools; sudo nvidia-modprobe -c 0 -u",
            evidence=[seen(f"driver.nodes[{UVM}].rdev", nodes[UVM].rdev)],
        )
    if not missing:
        return passed(f"{', '.join(sorted(nodes))}: all devices, module {loaded} loaded")
    names = ", ".join(missing)
    if inside(f):
        return failed(
            f"{names} not in this container",
            want="the nodes of the host's GPUs in the container",
            say="start the container with the GPUs; on the host the nodes must exist before that",
            command=f"{CREATE}   # on the host, then start the container again",
            disturbs="service",
        )
    if known_or(f.driver.modprobe, False):
        return passed(f"{names} would be created on first use by the set-uid nvidia-modprobe")
    uvm = known_or(f.driver.uvm_major, None)
    why = "" if uvm is not None or UVM not in missing else "; nvidia_uvm is not loaded"
    return failed(
        f"{names} missing{why}, and no set-uid nvidia-modprobe makes it on first use",
        want="device nodes for every user",
        say="load nvidia_uvm now and at every boot, and make the nodes",
        command=f"echo nvidia_uvm | sudo tee /etc/modules-load.d/nvidia-uvm.conf && {CREATE}",
        evidence=[seen("driver.nodes", sorted(nodes))],
    )


def _gpu_nodes(f: Facts, nodes: dict[str, Node]) -> list[str]:
    """Nodes of GPUs that are not there. A container may have been given some only."""
    there = [path for path in nodes if re.fullmatch(r"/dev/nvidia\d+", path)]
    if inside(f):
        return [] if there else ["/dev/nvidia0"]
    if isinstance(f.nvml.gpus, Known):
        minors = [gpu.minor for gpu in f.nvml.gpus.value.values()]
        wanted = [f"/dev/nvidia{minor.value}" for minor in minors if isinstance(minor, Known)]
        return [path for path in wanted if path not in nodes]
    ours = [gpu for gpu in f.pci.gpus.value if known_or(gpu.driver, None) == "nvidia"]
    return [] if there or not ours else ["/dev/nvidia0"]


def _stale(f: Facts, nodes: dict[str, Node]) -> str | None:
    """nvidia-uvm has a dynamic major number: a node that outlived the module leads nowhere."""
    node, major = nodes.get(UVM), known_or(f.driver.uvm_major, None)
    if node is None or node.rdev is None or major is None:
        return None
    had = node.rdev.partition(":")[0]
    return None if had == str(major) else f"{UVM} has major {had}, the module now has {major}"


def _not_devices(f: Facts, nodes: dict[str, Node], wrong: list[str]) -> Result:
    kinds = {"file": "a regular file", "dir": "a folder", "link": "a link"}
    told = "; ".join(
        f"{path} is {kinds.get(nodes[path].type, nodes[path].type)}, not a device" for path in wrong
    )
    places = " ".join(shlex.quote(path) for path in wrong)
    return failed(
        told,
        want="character devices of the nvidia modules",
        say="take away what lies there (unmount it if it is mounted), then make the node",
        command=f"sudo umount {places} 2>/dev/null || sudo rm {places}; {CREATE}",
        evidence=[seen(f"driver.nodes[{path}].type", nodes[path].type) for path in wrong],
    )
