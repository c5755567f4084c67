"""An OpenAI-compatible client: /health, /v1/models, completions, streaming and embeddings. Every call is bounded."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import msgspec

from doctor.smoke.engines.base import TokenAnswer

MODEL = "smoke"
"""The name the smoke model is served under."""
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
CONNECT_S = 5.0
MAX_BODY = 8 * 1024 * 1024
"""Bytes of an answer; the smoke's answers are a few kilobytes."""


class ServerError(Exception):
    """The server did not answer as the API says."""


class Streamed(msgspec.Struct, frozen=True, kw_only=True):
    """One streamed completion. Seconds."""

    first_s: float
    """Until the first token."""
    all_s: float
    tokens: int
    text: str


class Client:
    """Talks to one server on the loopback. Use as a context manager."""

    def __init__(self, port: int, key: str, timeout: float = 60.0) -> None:
        self._http = httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(timeout, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=64),
            trust_env=False,  # a proxy has no business with the loopback
            follow_redirects=False,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *args: object) -> None:
        self._http.close()

    def status(self, path: str, *, key: bool = True, timeout: float = 5.0) -> int | None:
        """The status of a GET; None when nothing answers."""
        headers = None if key else {"Authorization": ""}
        try:
            return self._http.get(path, timeout=timeout, headers=headers).status_code
        except httpx.HTTPError:
            return None

    def models(self) -> list[str]:
        """Ids of the served models."""
        body = self._json("GET", "/v1/models", None)
        return [str(item.get("id")) for item in _list(body, "data") if isinstance(item, dict)]

    def complete(
        self, prompt: Sequence[int], tokens: int, top: int, timeout: float | None = None
    ) -> TokenAnswer:
        """Greedy tokens with the log-probabilities of the best `top` candidates."""
        body = self._json(
            "POST", "/v1/completions", {**_asked(prompt, tokens), "logprobs": top}, timeout
        )
        choices = _list(body, "choices")
        if not choices or not isinstance(choices[0], dict):
            raise ServerError("the answer has no choices")
        found = choices[0].get("logprobs")
        if not isinstance(found, dict):
            raise ServerError("the answer has no log-probabilities")
        return _token_answer(found)

    def stream(self, prompt: Sequence[int], tokens: int) -> Streamed:
        """The same as a stream of server-sent events, timed."""
        started = time.monotonic()
        first: float | None = None
        text, number = [], 0
        asked = {
            **_asked(prompt, tokens),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        try:
            with self._http.stream("POST", "/v1/completions", json=asked) as response:
                if response.status_code != 200:
                    response.read()
                    raise _refused(response)
                for item in _events(response):
                    usage = item.get("usage")
                    if isinstance(usage, dict) and isinstance(usage.get("completion_tokens"), int):
                        number = usage["completion_tokens"]
                    for choice in item.get("choices") or []:
                        if first is None:
                            first = time.monotonic() - started
                        text.append(choice.get("text") or "")
        except httpx.HTTPError as error:
            raise ServerError(f"{type(error).__name__}: {error}") from None
        whole = "".join(text)
        if first is None:
            raise ServerError("the stream ended without a token")
        return Streamed(
            first_s=first,
            all_s=time.monotonic() - started,
            tokens=number or len(whole.split()),
            text=whole,
        )

    def embed(self, prompt: Sequence[int]) -> list[float]:
        """The embedding of a prompt."""
        body = self._json("POST", "/v1/embeddings", {"model": MODEL, "input": list(prompt)})
        data = _list(body, "data")
        vector = data[0].get("embedding") if data and isinstance(data[0], dict) else None
        if not isinstance(vector, list) or not all(isinstance(x, (int, float)) for x in vector):
            raise ServerError("the answer has no embedding")
        return [float(value) for value in vector]

    def _json(
        self, method: str, path: str, body: dict[str, Any] | None, timeout: float | None = None
    ) -> dict[str, Any]:
        try:
            response = self._http.request(
                method,
                path,
                json=body,
                timeout=httpx.USE_CLIENT_DEFAULT if timeout is None else timeout,
            )
        except httpx.HTTPError as error:
            raise ServerError(f"{path}: {type(error).__name__}: {error}") from None
        if response.status_code != 200:
            raise _refused(response)
        if len(response.content) > MAX_BODY:
            raise ServerError(f"{path}: an answer of {len(response.content)} bytes")
        try:
            found = response.json()
        except ValueError:
            raise ServerError(f"{path}: the answer is not JSON") from None
        if not isinstance(found, dict):
            raise ServerError(f"{path}: the answer is no object")
        return found


def token_id(text: str) -> int:
    """The smoke tokenizer writes token 17 as w017; the first four are special. ValueError for anything else."""
    word = text.strip()
    if word in SPECIALS:
        return SPECIALS.index(word)
    if word.startswith("token_id:"):
        return int(word.removeprefix("token_id:"))
    if not word.startswith("w"):
        raise ValueError(f"{word!r} is no token of the smoke model")
    return int(word[1:])


def _asked(prompt: Sequence[int], tokens: int) -> dict[str, Any]:
    return {
        "model": MODEL,
        "prompt": list(prompt),
        "max_tokens": tokens,
        "temperature": 0.0,
        "ignore_eos": True,
    }


def _token_answer(found: dict[str, Any]) -> TokenAnswer:
    try:
        ids = tuple(token_id(str(word)) for word in found.get("tokens") or [])
        logprobs = tuple(_nats(value) for value in found.get("token_logprobs") or [])
        top = tuple(_candidates(item) for item in found.get("top_logprobs") or [])
    except (TypeError, ValueError) as error:
        raise ServerError(f"the log-probabilities cannot be read: {error}") from None
    return TokenAnswer(ids=ids, logprobs=logprobs, top=top)


def _nats(value: object) -> float:
    """JSON has no NaN: what is no number is one."""
    return float(value) if isinstance(value, (int, float)) else math.nan


def _candidates(item: object) -> dict[int, float]:
    """Words that are no token are left out."""
    found: dict[int, float] = {}
    for word, value in (item if isinstance(item, dict) else {}).items():
        try:
            found[token_id(word)] = _nats(value)
        except ValueError:
            continue
    return found


def _events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or not data or data == "[DONE]":
            continue
        try:
            item = json.loads(data)
        except ValueError:
            raise ServerError("the stream holds what is not JSON") from None
        if isinstance(item, dict):
            if "error" in item:
                raise ServerError(f"the stream says: {str(item['error'])[:200]}")
            yield item


def _list(body: dict[str, Any], key: str) -> list[Any]:
    value = body.get(key)
    return value if isinstance(value, list) else []


def _refused(response: httpx.Response) -> ServerError:
    return ServerError(
        f"{response.request.url.path}: status {response.status_code}: {response.text[:300]}"
    )
