"""What runs on a host that is changed from elsewhere: the request lies in the archive that was sent; the answer is one marked line."""

from __future__ import annotations

import json
import os
import zipfile
from typing import Any

from doctor.probes.answer import line
from doctor.remedy.host import boot, claim, dispatch

REQUEST = "request.json"


def main(archive: str) -> int:
    """Claim the host for the run, do what is asked, print how it went."""
    os.umask(0o077)
    with zipfile.ZipFile(archive) as sent:
        request = json.loads(sent.read(REQUEST))
    print(line(answer(request), request["word"]))
    return 0


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """{"ok"} or {"error"}, and {"claimed"} where another run is at work."""
    asked = request["asked"]
    try:
        if asked["do"] == "release":
            return {"ok": claim.release(request["run"])}
        claim.claim(request["run"], request["by"])
        if asked["do"] == "obstacles":
            asked = {**asked, "session": boot.own_session()}
        return {"ok": dispatch.answer(asked)}
    except claim.ClaimedError as error:
        return {"claimed": str(error)}
    except OSError as error:
        return {"error": f"{error.filename or asked['do']}: {error.strerror}"}
    except Exception as error:  # whoever asked hears of it; nobody reads a traceback here
        return {"error": f"{type(error).__name__}: {error}"}
