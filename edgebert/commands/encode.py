"""``edgebert encode``: one vector a text, as JSON lines or as a ``.npy`` file."""

from __future__ import annotations

import argparse
import io
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import edgebert
from edgebert.commands.arguments import (
    add_bundle,
    add_on_long,
    add_runtime,
    open_runtime,
    positive,
)
from edgebert.commands.texts import add_texts, chunked, counted_from, read_texts
from edgebert.errors import InputError
from edgebert.files import check_parent, write_bytes
from edgebert.inputs import ROLES
from edgebert.tasks.vectors import DTYPES, json_array

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    add_texts(parser, pairs=False)
    parser.add_argument("--output", type=Path, help="Write this .npy file, not JSON lines")
    parser.add_argument("--role", choices=ROLES, help="Whose prompt is put first")
    parser.add_argument(
        "--normalize", action=argparse.BooleanOptionalAction, help="Unit length (default: bundle's)"
    )
    parser.add_argument("--truncate-dim", type=positive, help="Keep the first so many dimensions")
    parser.add_argument(
        "--dtype", choices=DTYPES, default="float32", help="Of the vectors (default: float32)"
    )
    parser.add_argument("--batch-size", type=positive, help="Texts an engine call, at most")
    add_on_long(parser)
    add_runtime(parser)


def run(args: argparse.Namespace) -> int:
    """Print a JSON array a text, with ``--json`` an object with its text, or write the file."""
    if args.output:
        _check_output(args.output)
    count, start = 0, time.perf_counter()
    kept: list[npt.NDArray[Any]] = []
    with open_runtime(args) as runtime:
        for texts, vectors in _encoded(runtime, args):
            count += len(texts)
            if args.output:
                kept.append(vectors)
                continue
            for text, vector in zip(texts, vectors, strict=True):
                row = json_array(vector)
                print(f'{{"text": {json.dumps(text)}, "vector": {row}}}' if args.json else row)
        if args.output:
            _write(args, kept or [_encode(runtime, [], args)])
    logger.info("encoded %d texts in %.2f s", count, time.perf_counter() - start)
    return 0


def _encoded(
    runtime: edgebert.Runtime, args: argparse.Namespace
) -> Iterator[tuple[list[str], npt.NDArray[Any]]]:
    count = 0
    for chunk in chunked(read_texts(args)):
        texts = [text for text in chunk if isinstance(text, str)]  # no --pairs: all of them
        with counted_from(count):
            vectors = _encode(runtime, texts, args)
        count += len(texts)
        yield texts, vectors


def _encode(
    runtime: edgebert.Runtime, texts: list[str], args: argparse.Namespace
) -> npt.NDArray[Any]:
    vectors: npt.NDArray[Any] = runtime.encode(
        texts,
        role=args.role,
        normalize=args.normalize,
        truncate_dim=args.truncate_dim,
        dtype=args.dtype,
        on_long=args.on_long,
        batch_size=args.batch_size,
    )
    return vectors


def _check_output(path: Path) -> None:
    if path.suffix != ".npy":
        raise InputError(f"--output {path} must end in .npy, the one form that is written.")
    if path.is_dir():
        raise InputError(f"--output {path} is a directory; give the path of a file.")
    check_parent(path)


def _write(args: argparse.Namespace, kept: list[npt.NDArray[Any]]) -> None:
    vectors = np.concatenate(kept)
    stream = io.BytesIO()
    np.save(stream, vectors, allow_pickle=False)
    write_bytes(args.output, stream.getvalue())
    if args.json:
        facts = {"output": str(args.output), "shape": vectors.shape, "dtype": str(vectors.dtype)}
        print(json.dumps(facts, ensure_ascii=False))
    else:
        print(args.output)
