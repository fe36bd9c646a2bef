"""200,000 texts into SQLite and LanceDB, beside `Runtime.encode` alone; recall of small vectors.

The texts are those of SST-2 and STS-B, with made variants. Encoding alone and each store run in a
process of their own, encoding before and after. Resident memory is read ten times a second. Wants
an idle machine and Linux.

python benchmarks/extraction.py BUNDLE [--rows N]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, save, shared

import edgebert
from edgebert.cpu import machine
from edgebert.features import extract, open_store, search

STORES = ("sqlite", "lancedb")
LEAST_RATE, MOST_MEMORY_MB, MOST_GROWTH_MB = 0.9, 600.0, 30.0
K = 10


def texts(rows: int) -> list[str]:
    """Give real texts, and behind them variants: two halves of two of them, all different."""
    real = dict.fromkeys(_column("sst2", "train.tsv", 0) + _sts("train") + _sts("dev"))
    pool, rng = list(real), np.random.default_rng(0)
    for number in count():
        if len(real) >= rows:
            break
        one, other = (pool[i].split() for i in rng.integers(0, len(pool), 2))
        words = one[: len(one) // 2 + 1] + other[len(other) // 2 :]
        real[f"{' '.join(words)} {number}"] = None
    return list(islice(real, rows))


def _column(data: str, file: str, column: int) -> list[str]:
    rows = (shared(data) / file).read_text(encoding="utf-8").splitlines()[1:]
    return [row.split("\t")[column].strip() for row in rows]


def _sts(split: str) -> list[str]:
    rows = (shared("stsb") / f"sts-{split}.tsv").read_text(encoding="utf-8").splitlines()
    return [text for row in rows for text in row.split("\t")[5:7]]


def encode_alone(bundle: Path, source: Path) -> float:
    """Encode all texts of a file, and keep none of the vectors; give the seconds."""
    with edgebert.Runtime(bundle) as runtime, source.open(encoding="utf-8") as stream:
        runtime.encode(["warm"])
        start = time.perf_counter()
        for _ in runtime.encode_iter(json.loads(line)["text"] for line in stream):
            pass
        return time.perf_counter() - start


def run(*command: str) -> tuple[Any, list[float]]:
    """Run one of our commands; give what it prints, and its resident MB ten times a second."""
    child = subprocess.Popen([sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE)
    resident: list[float] = []

    def watch() -> None:
        while child.poll() is None:
            try:
                pages = Path(f"/proc/{child.pid}/statm").read_text(encoding="ascii").split()[1]
            except (OSError, IndexError):
                return
            resident.append(int(pages) * 4096 / 2**20)
            time.sleep(0.1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    told = child.communicate()[0]
    watcher.join()
    if child.returncode:
        sys.exit(f"exit {child.returncode}")
    return json.loads(told), resident


def into_stores(bundle: Path, rows: int, folder: Path) -> dict[str, Any]:
    """Measure the rate of encoding alone and of each store, and what it keeps in memory."""
    source = folder / "texts.jsonl"
    lines = (json.dumps({"id": i, "text": text}) for i, text in enumerate(texts(rows)))
    source.write_text("\n".join(lines), encoding="utf-8")
    before, _ = run(__file__, str(bundle), "--encode-only", str(source))
    found: dict[str, Any] = {}
    for store in STORES:
        to = f"{store}:{folder / store}"
        command = ("-m", "edgebert", "extract", str(bundle), str(source), "--to", to)
        told, resident = run(*command, "--id-column", "id", "--on-long", "truncate", "--json")
        half = resident[len(resident) // 2 :]
        found[store] = {
            "texts_per_s": told["rows"] / told["seconds"]["total"],
            "held": told["held"],
            "seconds": told["seconds"],
            "memory_mb": {
                "median": float(np.median(resident)),
                "most": max(resident),
                "growth": max(half) - half[0],
            },
        }
    after, _ = run(__file__, str(bundle), "--encode-only", str(source))
    alone = rows / ((before + after) / 2)
    for one in found.values():
        one["of_encode"] = one["texts_per_s"] / alone
    return {"rows": rows, "encode_texts_per_s": alone, "stores": found}


def recall(bundle: Path, folder: Path) -> dict[str, float]:
    """Give the part of the ten nearest in float32 that int8 and binary find as well.

    The corpus is the sentences of STS-B's test split, each of which asks for its neighbours.
    """
    corpus = list(dict.fromkeys(_sts("test")))
    source = folder / "sts.jsonl"
    source.write_text("\n".join(json.dumps({"text": one}) for one in corpus), encoding="utf-8")
    nearest: dict[str, list[set[str]]] = {}
    with edgebert.Runtime(bundle) as runtime:
        for dtype in ("float32", "float16", "int8", "binary"):
            to = f"sqlite:{folder / dtype}.db"
            extract(runtime, source, to, dtype=dtype, role=None)
            with open_store(to, read_only=True) as store:
                hits = [search(store, one, runtime, k=K, exact=True, role=None) for one in corpus]
            nearest[dtype] = [{hit.entry.id for hit in one} for one in hits]
    full = nearest.pop("float32")
    return {
        dtype: float(np.mean([len(a & b) / len(a) for a, b in zip(full, found, strict=True)]))
        for dtype, found in nearest.items()
    }


def main() -> None:
    """Measure, save, and fail where a store is slower or larger than it may be."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--encode-only", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.encode_only:
        print(encode_alone(args.bundle, args.encode_only))
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        result = into_stores(args.bundle, args.rows, folder)
        result |= {"recall_at_10": recall(args.bundle, folder), "machine": machine()}
    save("extraction", result)
    wrong = [
        f"{name}: {key} {value:.2f}"
        for name, one in result["stores"].items()
        for key, value, right in (
            ("rate of encode", one["of_encode"], one["of_encode"] >= LEAST_RATE),
            ("MB", one["memory_mb"]["most"], one["memory_mb"]["most"] <= MOST_MEMORY_MB),
            ("MB grown", one["memory_mb"]["growth"], one["memory_mb"]["growth"] <= MOST_GROWTH_MB),
        )
        if not right
    ]
    sys.exit("; ".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
