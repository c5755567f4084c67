"""The pure halves of the modules are imported as a package, without Ansible."""

import sys
from pathlib import Path

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"

if str(PLAYBOOKS) not in sys.path:
    sys.path.insert(0, str(PLAYBOOKS))
