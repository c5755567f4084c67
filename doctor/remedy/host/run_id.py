"""What a run, an audit or a fix is called: sortable by time, and never to be taken for a path or an option."""

import re
import secrets
import time

RUN_ID = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")


def new_id() -> str:
    """One of this moment."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"
