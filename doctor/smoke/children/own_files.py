"""Names the files of this interpreter that the container's probe needs: what a tiny image is made of. One JSON line."""

import os
import sysconfig

from doctor.smoke.children.say import say

NEEDED = (
    "doctor.smoke.children.container_probe doctor.smoke.children.driver_api "
    "encodings.utf_8 encodings.ascii encodings.latin_1 encodings.cp437 zipimport zlib random array resource"
).split()


def main(args: list[str]) -> None:
    """Import what the probe imports; then every module's file and every mapped library."""
    import importlib
    import sys

    for name in NEEDED:
        importlib.import_module(name)
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    stdlib = sysconfig.get_path("stdlib")
    landmarks = [os.path.join(stdlib, name) for name in ("os.py", "codecs.py", "io.py", "abc.py")]
    with open("/proc/self/maps") as maps:
        fields = [line.split(None, 5) for line in maps]
    mapped = {item[5].strip() for item in fields if len(item) > 5 and item[5].startswith("/")}
    say(
        executable=os.path.realpath(sys.executable),
        modules=sorted({file for file in [*modules, *landmarks] if file and os.path.exists(file)}),
        libraries=sorted(path for path in mapped if ".so" in path and os.path.exists(path)),
        dynload=os.path.join(stdlib, "lib-dynload"),
    )
