"""One module per probe area: the typed shape of what `doctor.probes.areas.<area>` returns.

Annotations are not postponed here: msgspec would evaluate each string anew in every run, which costs more than to judge
the host.
"""
