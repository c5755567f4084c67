"""The stand-in's console scripts: they refuse every option that the real release does not have, and do a little of the work.

Copied into the stand-in's environment; runs under its Python. `RELEASE` beside it holds the version.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ("--gather_generation_logits", "--gather_context_logits", "--gather_all_token_logits")


def release() -> "tuple[int, ...]":
    return numbers((HERE / "RELEASE").read_text())


def numbers(text: str) -> "tuple[int, ...]":
    return tuple(int(part) for part in text.strip().split(".")[:3])


def parse(tool: str, argv: "list[str]") -> "tuple[dict[str, str], list[str]]":
    """Options and positional arguments, as argparse and click would take them; exit 2 for an unknown one."""
    rows = json.loads((HERE / "options.json").read_text())[tool]
    known = {
        name
        for name, since, until in rows
        if (since is None or numbers(since) <= release())
        and (until is None or release() <= numbers(until))
    }
    options, rest = {}, []
    while argv:
        item = argv.pop(0)
        if not item.startswith("--"):
            rest.append(item)
        elif item not in known:
            print(
                f"usage: {tool} [-h]\n{tool}: error: unrecognized arguments: {item}",
                file=sys.stderr,
            )
            raise SystemExit(2)
        else:
            options[item] = "" if item in FLAGS else argv.pop(0)
    with (HERE / "calls.log").open("a") as log:
        log.write(json.dumps([tool, options, rest]) + "\n")
    return options, rest


def build() -> None:
    """trtllm-build: a checkpoint in, an engine out."""
    options, rest = parse("trtllm-build", sys.argv[1:])
    if rest:
        raise SystemExit("trtllm-build: error: unrecognized arguments: " + " ".join(rest))
    config = json.loads((Path(options["--checkpoint_dir"]) / "config.json").read_text())
    engine = Path(options["--output_dir"])
    engine.mkdir(parents=True, exist_ok=True)
    built = {"pretrained_config": config, "build_config": options}
    (engine / "config.json").write_text(json.dumps(built))
    (engine / "rank0.engine").write_bytes(b"engine")


def serve() -> None:
    """trtllm-serve: an engine folder with --tokenizer, or from 1.0 on a model folder."""
    if release() < (0, 15, 0):
        raise SystemExit("trtllm-serve: command not found")
    options, rest = parse("trtllm-serve", sys.argv[1:])
    values = ("pytorch",) if release() < (1, 0, 0) else ("pytorch", "tensorrt", "_autodeploy")
    if options.get("--backend", "pytorch") not in values:
        raise SystemExit(f"Error: Invalid value for '--backend': one of {values}")
    model = Path(rest[0])
    is_engine = (model / "rank0.engine").exists()
    pytorch = options.get("--backend") == "pytorch" or release() >= (1, 0, 0)
    if is_engine == pytorch or not (model / "config.json").exists():
        raise SystemExit(f"cannot load {model} with backend {'pytorch' if pytorch else 'tensorrt'}")
    if is_engine and not Path(options["--tokenizer"]).is_dir():
        raise SystemExit("a TensorRT engine needs --tokenizer")
    address = (options.get("--host", "localhost"), int(options.get("--port", 8000)))
    Handler.model = model.name
    ThreadingHTTPServer(address, Handler).serve_forever()


class Handler(BaseHTTPRequestHandler):
    """The OpenAI API as far as the smoke asks it; takes no API key and gives no log-probabilities."""

    model = ""

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self.answer({"object": "list", "data": [{"id": self.model, "object": "model"}]})
        else:
            self.answer({}, 200 if self.path == "/health" else 404)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked.get("logprobs") is not None:
            return self.answer({"object": "error", "message": "logprobs is not supported"}, 400)
        words = [f"w{token:03d}" for token in tokens(asked["prompt"], asked["max_tokens"])]
        usage = {"completion_tokens": len(words), "prompt_tokens": len(asked["prompt"])}
        if not asked.get("stream"):
            text = " ".join(words)
            return self.answer({"choices": [{"index": 0, "text": text}], "usage": usage})
        lines = [{"choices": [{"index": 0, "text": word + " "}]} for word in words]
        lines.append({"choices": [], "usage": usage})
        body = "".join(f"data: {json.dumps(line)}\n\n" for line in lines) + "data: [DONE]\n\n"
        return self.send(body.encode(), 200, "text/event-stream")

    def answer(self, body: dict, status: int = 200) -> None:
        self.send(json.dumps(body).encode(), status, "application/json")

    def send(self, body: bytes, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def tokens(prompt: "list[int]", count: int) -> "list[int]":
    """What the stand-in generates."""
    return [(sum(prompt) + 7 * place) % 500 + 4 for place in range(count)]
