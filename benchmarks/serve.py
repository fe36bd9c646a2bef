"""64 clients at once ask `edgebert serve` for a minute: errors, answers mixed up, p95 and rate.

Each client sends one text of STS-B a request over a connection of its own, as fast as the answers
come, and compares each answer with the text's own vector of `Runtime.encode`. Clients and server
share the machine's cores; it wants an idle one.

python benchmarks/serve.py BUNDLE [--backend B] [--precision P] [--clients N] [--seconds S] [--busy]
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, save, shared

import edgebert
from edgebert.cpu import machine
from edgebert.types import FloatArray

PATH, NAME, KEY = "/v1/embeddings", "student", "benchmark"
MOST_LOAD = 0.5
MOST_OFF = 1e-4  # what another text in the batch may change; another text's vector is far off
MOST_BODY = 100_000
WARM_SECONDS = 3.0


def main(arguments: list[str] | None = None) -> int:
    """Measure, write the result, and fail where an answer was wrong or missing."""
    args = parse(arguments)
    load = os.getloadavg()[0]
    if load > MOST_LOAD and not args.busy:
        sys.exit(f"The load is {load:.1f}, above {MOST_LOAD}; wait, or give --busy to go on.")
    texts = read_texts()
    with edgebert.Runtime(args.bundle, args.backend, args.precision) as runtime:
        info = runtime.info
        start = time.perf_counter()
        expected = runtime.encode(texts)
        alone = len(texts) / (time.perf_counter() - start)
    with served(args.bundle, info.backend, info.precision) as (child, port):
        refused = {name: status(port, **given) for name, given in wrong_requests().items()}
        found = measure(port, texts, expected, clients=args.clients, seconds=args.seconds)
        found["server_memory_mb"] = peak_memory_mb(child.pid)
    result = {
        "artifact": f"{info.backend}/{info.precision}",
        "engine": info.engine,
        "clients": args.clients,
        **found,
        "encode_texts_per_s": round(alone, 1),
        "refused": refused,
        "server_exit_code": child.returncode,
        "load_before": round(load, 2),
        "machine": machine(),
    }
    save("serve", result)
    wanted = {"malformed": 400, "unauthorised": 401, "too_large": 413}
    return int(result["errors"] > 0 or result["mixed_up"] > 0 or refused != wanted)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--busy", action="store_true", help="Measure on a machine that isn't idle")
    return parser.parse_args(arguments)


def read_texts() -> list[str]:
    """Give the distinct sentences of the STS-B dev set."""
    lines = (shared("stsb") / "sts-dev.tsv").read_text(encoding="utf-8").splitlines()
    return sorted({text for line in lines for text in line.split("\t")[5:7]})


@contextmanager
def served(
    bundle: Path, backend: str, precision: str
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start the server on a free port; stop it as an orchestrator would."""
    command = [sys.executable, "-m", "edgebert", "serve", str(bundle), "--port", "0", "--json"]
    limits = ["--name", NAME, "--max-body-bytes", str(MOST_BODY)]
    child = subprocess.Popen(
        [*command, *limits, "--backend", backend, "--precision", precision],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "EDGEBERT_API_KEY": KEY},
    )
    assert child.stdout is not None
    first = child.stdout.readline()
    if not first:
        sys.exit(f"The server ended with {child.wait()}.")
    try:
        yield child, int(json.loads(first)["url"].rpartition(":")[2])
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(60)


def request_of(text: str) -> bytes:
    """Write a request as OpenAI's client would."""
    fields = {"model": NAME, "input": text, "encoding_format": "base64"}
    return json.dumps(fields).encode("utf-8")


def headers(key: str = KEY) -> dict[str, str]:
    """Give the headers of a request."""
    return {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}


def wrong_requests() -> dict[str, dict[str, Any]]:
    """Give requests that must be refused."""
    return {
        "malformed": {"body": b'{"model": ', "key": KEY},
        "unauthorised": {"body": request_of("a"), "key": "guess"},
        "too_large": {"body": request_of("a" * MOST_BODY), "key": KEY},
    }


def status(port: int, *, body: bytes, key: str) -> int:
    """Send one request; give its status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", PATH, body, headers(key))
    found = connection.getresponse().status
    connection.close()
    return found


class Client(threading.Thread):
    """Asks until it's told to stop.

    Attributes:
        times: When each right answer came, and what it took, in seconds.
        troubles: How often what went wrong.
    """

    def __init__(self, port: int, texts: list[str], expected: FloatArray, *, seed: int) -> None:
        super().__init__(daemon=True)
        self._port, self._texts, self._expected = port, texts, expected
        self._order = np.random.default_rng(seed).permutation(len(texts)).tolist()
        self.stopped = threading.Event()
        self.times: list[tuple[float, float]] = []
        self.troubles: Counter[str] = Counter()

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        while not self.stopped.is_set():
            for i in self._order:
                if self.stopped.is_set():
                    break
                try:
                    self._ask(connection, i)
                except (OSError, http.client.HTTPException) as error:
                    self.troubles[type(error).__name__] += 1
                    connection.close()
        connection.close()

    def _ask(self, connection: http.client.HTTPConnection, i: int) -> None:
        start = time.perf_counter()
        connection.request("POST", PATH, request_of(self._texts[i]), headers())
        reply = connection.getresponse()
        body = reply.read()
        end = time.perf_counter()
        if reply.status != 200:
            self.troubles[str(reply.status)] += 1
            return
        vector = np.frombuffer(base64.b64decode(json.loads(body)["data"][0]["embedding"]), "<f4")
        if np.abs(vector - self._expected[i]).max() > MOST_OFF:
            self.troubles["mixed_up"] += 1
            return
        self.times.append((end, end - start))


def measure(
    port: int, texts: list[str], expected: FloatArray, *, clients: int, seconds: float
) -> dict[str, Any]:
    """Let clients ask; what is answered while the server warms up isn't timed, but checked."""
    asking = [Client(port, texts, expected, seed=seed) for seed in range(clients)]
    for client in asking:
        client.start()
    time.sleep(WARM_SECONDS)
    start = time.perf_counter()
    time.sleep(seconds)
    end = time.perf_counter()
    for client in asking:
        client.stopped.set()
    for client in asking:
        client.join(60)
    troubles = sum((client.troubles for client in asking), Counter[str]())
    mixed_up = troubles.pop("mixed_up", 0)
    took = [took for client in asking for at, took in client.times if start <= at <= end]
    if not took:
        sys.exit(f"No answer came; errors: {dict(troubles)}")
    p50, p95, p99 = np.percentile(np.array(took) * 1000, [50, 95, 99]).tolist()
    return {
        "seconds": round(end - start, 2),
        "requests": len(took),
        "errors": sum(troubles.values()),
        "errors_by_kind": dict(troubles),
        "mixed_up": mixed_up,
        "latency_ms": {"p50": round(p50, 2), "p95": round(p95, 2), "p99": round(p99, 2)},
        "requests_per_s": round(len(took) / (end - start), 1),
    }


def peak_memory_mb(pid: int) -> float | None:
    """Read a process's largest resident memory, where the system tells."""
    path = Path(f"/proc/{pid}/status")
    if not path.is_file():
        return None
    lines = dict(line.split(":", 1) for line in path.read_text().splitlines())
    return round(int(lines["VmHWM"].split()[0]) / 1024, 1)


if __name__ == "__main__":
    sys.exit(main())
