"""`doctor recipe NAME`: the file by which another system runs the doctor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from doctor.cli import console

if TYPE_CHECKING:
    from doctor.recipes.recipe import Recipe


@click.command()
@click.argument("name", required=False)
@click.option("--set", "said", multiple=True, metavar="NAME=VALUE", help="Fill a variable.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option("--list", "list_", is_flag=True, help="List the recipes, or the variables of one.")
def recipe(name: str | None, said: tuple[str, ...], output: Path | None, list_: bool) -> int:
    """Print a recipe: cloud-init, Packer, systemd, Slurm, Kubernetes, CI, alerts. Without a name, list them."""
    from doctor.recipes import recipe as book

    if name is None:
        console.data("\n".join(map(line, book.recipes().values())), output)
    elif list_:
        console.data(described(book.recipe(name)), output)
    else:
        console.data(book.render(book.recipe(name), said), output)
    return 0


def line(item: Recipe) -> str:
    """One recipe of the list."""
    needed = [f" --set {key}=..." for key, known in item.variables.items() if known.default is None]
    return f"{item.name:<22}{item.title}" + (
        f"\n{'':<22}doctor recipe {item.name}{''.join(needed)}" if needed else ""
    )


def described(item: Recipe) -> str:
    """A recipe with its variables."""
    lines = [f"{item.name}: {item.title}", f"file: {item.file}"]
    if item.needs:
        lines.append(f"needs: {item.needs}")
    if item.tried:
        lines.append(f"tried with: {item.tried}")
    for name, known in item.variables.items():
        default = "must be said" if known.default is None else f"default {_shown(known.default)}"
        lines.append(
            f"  {name:<12}{known.say} ({default}{', may be repeated' if known.many else ''})"
        )
    return "\n".join(lines)


def _shown(default: str | list[str]) -> str:
    return (default if isinstance(default, str) else ", ".join(default)) or "nothing"
