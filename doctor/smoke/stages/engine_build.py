"""The rung `engine-build`: the engine is there, the smoke model is written, and the engine made of it what it serves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from doctor.checks.finding import Evidence
from doctor.smoke import reference, tiny_model
from doctor.smoke.model import StageResult, passed

if TYPE_CHECKING:
    from doctor.smoke.context import Context


class EngineBuild:
    """Finds or makes the engine's environment, writes the model, builds, and begins the reference."""

    name = "engine-build"
    needs: tuple[str, ...] = ("python_env.environments",)
    timeout = 2400.0
    """Making an environment is most of it: some gigabytes of wheels."""

    def run(self, ctx: Context) -> StageResult:
        """Place, model, build."""
        engine = ctx.chosen
        started = time.monotonic()
        ctx.progress(f"looking for {engine.name}")
        place = engine.place(ctx)
        placed = time.monotonic()
        ctx.progress("writing the smoke model")
        model = tiny_model.write(ctx, place, engine.dtype(ctx))
        written = time.monotonic()
        ctx.progress(f"building with {engine.name} {place.version}")
        built = engine.build(ctx, place, model)
        ctx.shared["place"], ctx.shared["model"], ctx.shared["built"] = place, model, built
        ctx.shared["reference"] = reference.start(ctx, place, model)
        action = (
            "serves the model folder as it is" if built == model.folder else f"built {built.name}"
        )
        return passed(
            self.name,
            f"{engine.name} {place.version} in {place.where} ({place.note}); "
            f"{model.parameters / 1e6:.1f} million parameters in {model.dtype} written; {action}",
            evidence=[
                *place.evidence,
                *(
                    Evidence(fact=f"package.{name}", value=version, via=place.where)
                    for name, version in sorted(model.versions.items())
                ),
            ],
            numbers={
                "place_s": round(placed - started, 2),
                "write_s": round(written - placed, 2),
                "build_s": round(time.monotonic() - written, 2),
            },
            files=["write-model.log"],
        )

    def cleanup(self, ctx: Context) -> None:
        """The reference may still run; the scratch folder goes with the run."""
        pending = ctx.shared.pop("reference", None)
        if pending is not None and pending.running.returncode is None:
            pending.running.end()


STAGE = EngineBuild()
