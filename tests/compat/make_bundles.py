"""Make a small model and a bundle of every task, and note what edgebert gives for it.

Runs in the toolchain's own environment; the tests of this folder then open the bundles in others:
``python -m tests.compat.make_bundles FOLDER``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import edgebert
from compress.export import ExportConfig, export
from tests.compat.cases import BACKENDS, CASES, batch_of
from tests.compress.exports import embedder_config
from tests.compress.test_export_tasks import HEADS, export_task
from tests.tiny import write_classifier, write_sentiment


def make(folder: Path, task: str) -> None:
    """Write ``folder/model``, ``folder/bundle`` and ``folder/expected.npz``."""
    folder.mkdir(parents=True)
    if task == "feature-extraction":
        export(embedder_config(folder, backend=BACKENDS))
    elif task == "text-classification":
        write_classifier(folder / "model", initializer_range=0.2)
        write_sentiment(folder / "texts.tsv")
        settings = {"model": str(folder / "model"), "output_dir": folder / "bundle"}
        data = {"train_file": folder / "texts.tsv", "dev_file": folder / "texts.tsv"}
        options = {"max_length": 64, "threads": 1, "backend": BACKENDS}
        export(ExportConfig(task=task, **settings, **data, **options))
    else:
        export_task(folder, task, backend=BACKENDS)
    with edgebert.Runtime(folder / "bundle", backend="onnx", precision="fp32") as runtime:
        outputs = runtime.run(batch_of(task))
        if task == "feature-extraction":
            outputs["vectors"] = runtime.encode(CASES[task])
    np.savez(folder / "expected.npz", **outputs)


def main() -> None:
    """Make those that aren't there."""
    root = Path(sys.argv[1])
    assert set(CASES) >= set(HEADS)
    for task in CASES:
        if not (root / task / "expected.npz").is_file():
            make(root / task, task)
            print(f"made {root / task}", flush=True)


if __name__ == "__main__":
    main()
