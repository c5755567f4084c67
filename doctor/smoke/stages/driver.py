"""Rung `driver`: NVML starts, opens every GPU that the bus has, and knows their names. Asked in the probe's child."""

from __future__ import annotations

from doctor.checks.finding import Evidence
from doctor.facts.areas.nvml import Gpu
from doctor.facts.model import Absent, FactUnknown, Known, NotApplicable, Unknown
from doctor.smoke.context import Context, StageFailed, StageUnseen
from doctor.smoke.host_cause import broken, cause_of
from doctor.smoke.model import StageResult, passed

AREAS = ("gpu", "wsl", "kernel", "driver", "container")
"""Areas of the checks that explain why NVML does not answer."""


class DriverStage:
    """NVML on every GPU."""

    name = "driver"
    needs = ("host.container", "host.hardware", "nvml.init", "nvml.gpus", "pci.gpus")
    timeout = 30.0

    def run(self, ctx: Context) -> StageResult:
        """Judge what the probe's child saw moments ago."""
        init = ctx.facts.nvml.init
        on_bus = bus(ctx)
        if isinstance(init, Unknown):
            raise StageUnseen(f"NVML could not be asked: {init.reason}")
        if isinstance(init, NotApplicable):
            raise StageUnseen(f"NVML does not apply here: {init.reason}")
        if not isinstance(init, Known) or init.value != "ok":
            raise self._no_nvml(ctx, init)
        try:
            gpus = ctx.facts.nvml.gpus.value
        except FactUnknown as unknown:
            raise StageUnseen(f"NVML started but its GPUs were not seen: {unknown}") from None
        evidence = [_evidence(uuid, gpu) for uuid, gpu in gpus.items()]
        if not gpus:
            raise fails(ctx, "no-gpu", "NVML counts at least one GPU", "NVML counts no GPU", [])
        self._all_open(ctx, gpus, evidence)
        self._all_there(ctx, gpus, on_bus, evidence)
        names = [gpu.name.value for gpu in gpus.values() if isinstance(gpu.name, Known)]
        if len(names) < len(gpus):
            raise StageUnseen(f"NVML did not name {len(gpus) - len(names)} of {len(gpus)} GPUs")
        version = ctx.facts.nvml.driver_version
        driver = f"driver {version.value}" if isinstance(version, Known) else "the driver"
        compared = f", as many as on the bus ({len(on_bus)})" if on_bus is not None else ""
        shown = ", ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names))
        return passed("driver", f"{driver} opens {shown}{compared}", evidence=evidence)

    def cleanup(self, ctx: Context) -> None:
        """Nothing was started."""

    def _no_nvml(self, ctx: Context, init: Known[str] | Absent) -> StageFailed:
        said = init.value if isinstance(init, Known) else "there is no libnvidia-ml.so.1"
        evidence = [Evidence(fact="nvml.init", value=said, via=init.via)]
        gpus = ctx.facts.pci.gpus
        if isinstance(gpus, Known):
            addresses = [device.address for device in gpus.value]
            evidence.append(Evidence(fact="pci.gpus", value=addresses, via=gpus.via))
        if isinstance(gpus, Known) and not gpus.value:
            message = f"no GPU: none on the PCI bus, and NVML: {said}"
            return fails(ctx, "no-gpu", "There is a GPU", message, evidence)
        return fails(ctx, "nvml-failed", "NVML starts", f"NVML: {said}", evidence)

    def _all_open(self, ctx: Context, gpus: dict[str, Gpu], evidence: list[Evidence]) -> None:
        for uuid, gpu in gpus.items():
            if isinstance(gpu.opened, Known) and gpu.opened.value != "ok":
                raise fails(
                    ctx,
                    "gpu-not-opened",
                    "NVML opens every GPU",
                    f"GPU {gpu.index} ({uuid}) does not open: {gpu.opened.value}",
                    evidence,
                )
            if not isinstance(gpu.opened, Known):
                raise StageUnseen(f"whether GPU {gpu.index} opens was not seen")

    def _all_there(
        self,
        ctx: Context,
        gpus: dict[str, Gpu],
        on_bus: list[str] | None,
        evidence: list[Evidence],
    ) -> None:
        if on_bus is None:
            return
        seen = {gpu.pci.value for gpu in gpus.values() if isinstance(gpu.pci, Known)}
        missing = [address for address in on_bus if address not in seen]
        if missing and len(gpus) < len(on_bus):
            raise fails(
                ctx,
                "gpu-missing",
                "NVML has every GPU that is on the bus",
                f"NVML has {len(gpus)} of {len(on_bus)} GPUs; not {', '.join(missing)}",
                evidence,
            )


def bus(ctx: Context) -> list[str] | None:
    """Addresses of the GPUs that the driver should have; None where the bus does not say (WSL2, containers, not seen)."""
    container = ctx.facts.host.container
    if not isinstance(container, Known) or container.value != "none":
        return None
    if not isinstance(ctx.facts.pci.gpus, Known):
        return None
    return [
        device.address
        for device in ctx.facts.pci.gpus.value
        if not isinstance(device.driver, Known) or device.driver.value == "nvidia"
    ]


def fails(
    ctx: Context, name: str, title: str, message: str, evidence: list[Evidence]
) -> StageFailed:
    """The rung's failure, with the host's finding behind it."""
    return broken(
        "driver",
        name,
        title,
        message,
        want="NVML starts and opens every GPU",
        cause=cause_of(ctx, (), AREAS),
        evidence=evidence,
    )


def _evidence(uuid: str, gpu: Gpu) -> Evidence:
    name = gpu.name.value if isinstance(gpu.name, Known) else "not named"
    pci = gpu.pci.value if isinstance(gpu.pci, Known) else "?"
    return Evidence(fact=f"nvml.gpus[{uuid}]", value=f"{name} at {pci}", via="NVML")


STAGE = DriverStage()
