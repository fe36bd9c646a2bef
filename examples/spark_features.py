"""Vectors of a Parquet file's texts with Spark: a bundle is opened once for each partition.

python examples/spark_features.py BUNDLE IN.parquet OUT.parquet

IN has the columns id and text. Every machine needs edgebert, and the bundle at the same path.
"""

import os
import sys
from collections.abc import Iterator
from functools import partial

import pyarrow as pa

import edgebert


def embed(batches: Iterator[pa.RecordBatch], bundle: str) -> Iterator[pa.RecordBatch]:
    """Give the id and the vector of each row; Spark calls it once for each partition."""
    with edgebert.Runtime(bundle, threads=1) as runtime:  # Spark runs a partition on each core
        for batch in batches:
            vectors = runtime.encode(batch.column("text").to_pylist(), role="document")
            starts = pa.array(range(0, vectors.size + 1, vectors.shape[1]), pa.int32())
            column = pa.ListArray.from_arrays(starts, pa.array(vectors.ravel()))
            yield pa.RecordBatch.from_arrays([batch.column("id"), column], ["id", "vector"])


def main() -> None:
    """Read, embed, write."""
    from pyspark.sql import SparkSession

    bundle, source, target = sys.argv[1:]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # not whatever python3 is
    spark = SparkSession.builder.appName("edgebert").getOrCreate()
    rows = spark.read.parquet(source).select("id", "text")
    vectors = rows.mapInArrow(partial(embed, bundle=bundle), "id string, vector array<float>")
    vectors.write.mode("overwrite").parquet(target)
    spark.stop()


if __name__ == "__main__":
    main()
