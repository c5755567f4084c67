"""The kernels that matter: the one that runs and the one that the next boot brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from doctor.facts.model import Known

if TYPE_CHECKING:
    from doctor.facts.tree import Facts


def releases(facts: Facts) -> list[str]:
    """As uname -r has them; FactUnknown when the running one was not seen."""
    found = [facts.kernel.running.value]
    following = facts.kernel.next_boot
    if isinstance(following, Known) and following.value not in found:
        found.append(following.value)
    return found
