"""Vectors of a Parquet file's texts with Daft: a bundle is opened once for each worker.

python examples/daft_features.py BUNDLE IN.parquet OUT

IN has the columns id and text. Every machine needs edgebert, and the bundle at the same path.
"""

import sys

import daft
import numpy as np

import edgebert


@daft.cls
class Embed:
    """Gives a text its vector."""

    def __init__(self, bundle: str) -> None:
        """Open the bundle; Daft calls this in its workers."""
        self.runtime = edgebert.Runtime(bundle, threads=1)

    @daft.method.batch(return_dtype=daft.DataType.list(daft.DataType.float32()), batch_size=512)
    def __call__(self, texts: daft.Series) -> list[np.ndarray]:
        """Embed a batch."""
        return list(self.runtime.encode(texts.to_pylist(), role="document"))


def main() -> None:
    """Read, embed, write."""
    bundle, source, target = sys.argv[1:]
    rows = daft.read_parquet(source)
    vectors = rows.select(rows["id"], Embed(bundle)(rows["text"]).alias("vector"))
    vectors.write_parquet(target, write_mode="overwrite")


if __name__ == "__main__":
    main()
