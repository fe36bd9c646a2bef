"""Other libraries' own ways from texts into a store, each at its defaults, timed once.

benchmarks/peers_extract.py runs it in their environment, which has no edgebert; Linux alone.

python peer_ways.py WAY BUNDLE MODEL_FILE TEXTS.jsonl FOLDER THREADS
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

DIM = 384
KEPT = 200  # rows whose vectors are read back from the store
_CHROMA_ROWS = 1000  # a call; Chroma refuses more than 5461
_MODEL = "benchmark/student"


class Stopwatch:
    """Counts the seconds within `running`; what loads a model stays outside.

    Attributes:
        seconds: So far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count what happens within."""
        start = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - start


class Job:
    """What a way is given.

    Attributes:
        bundle: A directory that sentence-transformers opens.
        file: Of the ONNX model in it, for those that take one.
        texts: The rows.
        folder: Where the store goes.
        threads: For the model.
        watch: Times the rows' way into the store.
    """

    def __init__(self, bundle: str, file: str, source: str, folder: str, threads: int) -> None:
        self.bundle, self.file, self.folder, self.threads = bundle, file, folder, threads
        lines = Path(source).read_text(encoding="utf-8").splitlines()
        self.texts = [json.loads(line)["text"] for line in lines]
        self.watch = Stopwatch()


def peak_memory_mb() -> float:
    """Read the largest resident memory of this process."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(dict(line.split(":", 1) for line in lines)["VmHWM"].split()[0]) / 1024


def _qdrant(job: Job, vectors: Callable[[], Any], *, first: Any = None) -> tuple[int, Any]:
    """Upload to a collection of Qdrant's local mode, with the text as payload.

    ``first`` is uploaded elsewhere before, where the client itself opens the model.
    """
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=job.folder)
    size = models.VectorParams(size=DIM, distance=models.Distance.COSINE)
    client.create_collection("texts", vectors_config=size)
    if first is not None:
        client.create_collection("warm", vectors_config=size)
        client.upload_collection("warm", vectors=[first], ids=[0])
    with job.watch.running():
        client.upload_collection(
            "texts",
            vectors=vectors(),
            ids=range(len(job.texts)),
            payload=[{"text": text} for text in job.texts],
        )
    rows = client.retrieve("texts", list(range(KEPT)), with_vectors=True)
    kept = [row.vector for row in sorted(rows, key=lambda row: row.id)]
    held = client.count("texts").count
    client.close()
    return held, kept


def _fastembed(job: Job) -> dict[str, Any]:
    """Make the bundle's model known to fastembed; give what opens it."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    TextEmbedding.add_custom_model(
        _MODEL,
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(hf=_MODEL),  # asked for by the class, and never looked at
        dim=DIM,
        model_file=job.file,
        output_name="last_hidden_state",
    )
    return {"specific_model_path": job.bundle, "threads": job.threads}


def fastembed_documents(job: Job) -> tuple[int, Any]:
    """Let Qdrant's client embed its ``Document`` by fastembed; it does so eight at a time."""
    from qdrant_client import models

    how = _fastembed(job)
    warm, *made = (
        models.Document(text=text, model=_MODEL, options=how) for text in ("warm", *job.texts)
    )
    return _qdrant(job, lambda: made, first=warm)


def fastembed_vectors(job: Job) -> tuple[int, Any]:
    """Embed by fastembed, 256 at a time, and upload what it yields."""
    from fastembed import TextEmbedding

    model = TextEmbedding(_MODEL, **_fastembed(job))
    list(model.embed(["warm"]))
    return _qdrant(job, lambda: model.embed(job.texts))


def _sentence_transformer(job: Job) -> Any:
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(job.threads)
    model = SentenceTransformer(job.bundle, device="cpu")
    model.encode(["warm"])
    return model


def sentence_transformers_qdrant(job: Job) -> tuple[int, Any]:
    """Encode all texts, and upload the array."""
    model = _sentence_transformer(job)
    return _qdrant(job, lambda: model.encode(job.texts))


def sentence_transformers_lancedb(job: Job) -> tuple[int, Any]:
    """Add texts to a table whose column is embedded by LanceDB's registry."""
    import lancedb
    import pyarrow as pa
    import torch
    from lancedb.embeddings import EmbeddingFunctionConfig, get_registry

    torch.set_num_threads(job.threads)
    function = get_registry().get("sentence-transformers").create(name=job.bundle)
    function.generate_embeddings(["warm"])
    vector = pa.list_(pa.float32(), DIM)
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("vector", vector)])
    column = EmbeddingFunctionConfig(
        source_column="text", vector_column="vector", function=function
    )
    table = lancedb.connect(job.folder).create_table(
        "texts", schema=schema, embedding_functions=[column]
    )
    with job.watch.running():
        table.add([{"id": i, "text": text} for i, text in enumerate(job.texts)])
    rows = table.search().where(f"id < {KEPT}").limit(KEPT).to_list()
    return table.count_rows(), [row["vector"] for row in sorted(rows, key=lambda row: row["id"])]


def _chroma(job: Job, function: Any) -> tuple[int, Any]:
    import chromadb

    function(["warm"])
    collection = chromadb.PersistentClient(job.folder).create_collection(
        "texts", embedding_function=function
    )
    names = [str(i) for i in range(len(job.texts))]
    with job.watch.running():
        for at in range(0, len(names), _CHROMA_ROWS):
            end = at + _CHROMA_ROWS
            collection.add(ids=names[at:end], documents=job.texts[at:end])
    found = collection.get(ids=names[:KEPT], include=["embeddings"])
    kept = dict(zip(found["ids"], found["embeddings"], strict=True))
    return collection.count(), [kept[name] for name in names[:KEPT]]


def sentence_transformers_chroma(job: Job) -> tuple[int, Any]:
    """Add texts to a collection with Chroma's function for sentence-transformers."""
    import torch
    from chromadb.utils.embedding_functions import SentenceTransformerEmbeddingFunction

    torch.set_num_threads(job.threads)
    return _chroma(job, SentenceTransformerEmbeddingFunction(model_name=job.bundle))


def chroma_default(job: Job) -> tuple[int, Any]:
    """Add texts to a collection with what Chroma takes unasked: this model, padded to 256."""
    from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2

    place = Path(f"{job.folder}.model")  # it downloads an archive unless these are there
    (place / "onnx").mkdir(parents=True)
    names = ["config", "special_tokens_map", "tokenizer_config", "tokenizer"]
    for name in [*(f"{one}.json" for one in names), "vocab.txt"]:
        (place / "onnx" / name).symlink_to(Path(job.bundle) / name)
    (place / "onnx" / "model.onnx").symlink_to(Path(job.bundle) / job.file)
    ONNXMiniLM_L6_V2.DOWNLOAD_PATH = place
    return _chroma(job, ONNXMiniLM_L6_V2())


def main() -> None:
    """Run one way; print what was measured, and write the first vectors beside the store."""
    way, bundle, file, source, folder, threads = sys.argv[1:]
    job = Job(bundle, file, source, folder, int(threads))
    held, kept = globals()[way](job)
    told = {"held": held, "seconds": job.watch.seconds, "memory_mb": peak_memory_mb()}
    np.save(f"{folder}.npy", np.asarray(kept, dtype=np.float32))
    wanted = ("fastembed", "sentence-transformers", "torch", "onnxruntime", "transformers")
    stores = ("qdrant-client", "lancedb", "chromadb")
    print(json.dumps({**told, "versions": {name: version(name) for name in (*wanted, *stores)}}))


if __name__ == "__main__":
    main()
