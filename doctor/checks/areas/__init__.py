"""The checks. A module `<area>` or `<area>_<part>` holds ids `<area>.*`; nothing to register."""
