"""Load on a server: a bounded number of clients, each asking anew when answered, for a while. What it measured, not what is good."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from doctor.smoke.client import Client, ServerError

OUTPUT_TOKENS = 24
PROMPT_TOKENS = (8, 64)
"""Shortest and longest prompt."""
WINDOWS = 5
"""Parts of the run that are also measured alone: their spread says how steady the host is."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request. Seconds; `at` is when it ended, from the start of the load."""

    at: float
    first_s: float = 0.0
    all_s: float = 0.0
    tokens: int = 0
    error: str | None = None


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Of one duration, in milliseconds."""

    p50: float
    p95: float
    p99: float


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a load showed."""

    clients: int
    seconds: float
    requests: int
    errors: list[str]
    tokens_per_s: float
    first_token_ms: Percentiles
    request_ms: Percentiles
    windows_tokens_per_s: list[float]


def generate(
    make_client: Callable[[], Client],
    *,
    clients: int,
    seconds: float,
    vocabulary: Sequence[int],
    is_over: Callable[[], bool],
    tick: Callable[[float], None],
    abort: Callable[[], None],
) -> Measured:
    """Ask for `seconds` with `clients` clients. `is_over` ends it early; `tick` hears how far it is.

    What these raise ends it at once: `abort` then breaks the answers that clients still wait for.
    """
    started = time.monotonic()
    until = started + seconds
    stop = threading.Event()

    def ask_on(seed: int) -> list[Request]:
        chooser = random.Random(seed)  # noqa: S311 - prompts, not secrets
        found = []
        with make_client() as client:
            while time.monotonic() < until and not stop.is_set():
                prompt = chooser.choices(vocabulary, k=chooser.randint(*PROMPT_TOKENS))
                found.append(_one(client, prompt, started))
                if found[-1].error is not None and _many_errors(found):
                    break
        return found

    with ThreadPoolExecutor(clients, thread_name_prefix="smoke-load") as pool:
        futures = [pool.submit(ask_on, number) for number in range(clients)]
        try:
            while not all(future.done() for future in futures):
                tick(time.monotonic() - started)
                if is_over():
                    break
                time.sleep(0.2)
        except BaseException:
            stop.set()
            abort()
            raise
        finally:
            stop.set()
        requests = [request for future in futures for request in future.result()]
    return summary(requests, clients, time.monotonic() - started)


def summary(requests: Sequence[Request], clients: int, seconds: float) -> Measured:
    """Pure: requests -> numbers. Failed requests count as errors and take no part in the times."""
    good = [request for request in requests if request.error is None]
    return Measured(
        clients=clients,
        seconds=round(seconds, 2),
        requests=len(requests),
        errors=[request.error for request in requests if request.error is not None],
        tokens_per_s=round(sum(request.tokens for request in good) / seconds, 2)
        if seconds
        else 0.0,
        first_token_ms=percentiles([request.first_s * 1000 for request in good]),
        request_ms=percentiles([request.all_s * 1000 for request in good]),
        windows_tokens_per_s=_windows(good, seconds),
    )


def percentiles(values: Sequence[float]) -> Percentiles:
    """Nearest rank; zeros when there is nothing."""
    ordered = sorted(values)

    def at(share: float) -> float:
        if not ordered:
            return 0.0
        rank = max(0, -(-int(share * 100) * len(ordered) // 100) - 1)
        return round(ordered[rank], 2)

    return Percentiles(p50=at(0.50), p95=at(0.95), p99=at(0.99))


def _windows(good: Sequence[Request], seconds: float) -> list[float]:
    """Tokens per second of equal parts; a request's tokens are spread over the time it took."""
    if seconds <= 0:
        return []
    size = seconds / WINDOWS
    found = [0.0] * WINDOWS
    for request in good:
        begin, end = request.at - request.all_s, request.at
        for number in range(WINDOWS):
            overlap = min(end, (number + 1) * size) - max(begin, number * size)
            if overlap > 0 and request.all_s > 0:
                found[number] += request.tokens * overlap / request.all_s
    return [round(value / size, 2) for value in found]


def _one(client: Client, prompt: list[int], started: float) -> Request:
    try:
        streamed = client.stream(prompt, OUTPUT_TOKENS)
    except ServerError as error:
        return Request(at=time.monotonic() - started, error=str(error)[:300])
    return Request(
        at=time.monotonic() - started,
        first_s=streamed.first_s,
        all_s=streamed.all_s,
        tokens=streamed.tokens,
    )


def _many_errors(found: Sequence[Request]) -> bool:
    """A client whose last three requests failed stops: the server is gone."""
    return len(found) >= 3 and all(request.error is not None for request in found[-3:])
