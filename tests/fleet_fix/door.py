"""Standard input and output as a connection to a container's sshd, wherever it is now: a stand-in has another address after a reboot.

door.py SOCKET NAME, as ssh's ProxyCommand
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

ADDRESS = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"


def main() -> None:
    engine, name = sys.argv[1:]
    asked = ["docker", "-H", f"unix://{engine}", "inspect", "-f", ADDRESS, name]
    address = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not address:
        sys.exit(f"{name} is down")
    with socket.create_connection((address, 22), 10) as there:
        threading.Thread(target=send, args=(there,), daemon=True).start()
        while data := there.recv(1 << 16):
            while data:
                data = data[os.write(1, data) :]


def send(there: socket.socket) -> None:
    """What comes in, until it ends."""
    while data := os.read(0, 1 << 16):
        there.sendall(data)
    there.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
