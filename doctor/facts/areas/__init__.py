"""One module per probe area: the typed shape of what `doctor.probes.<area>` returns."""
