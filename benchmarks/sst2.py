"""The main job on SST-2, all 60,614 rows, with every default: what is kept, how small, how fast.

python benchmarks/sst2.py
"""

from common import BUILD, save, shared, step, summary

DATA = shared("sst2")
BUNDLE = BUILD / "sst2"

run = step(
    "distill",
    *("--teacher", "minilm"),
    *("--train-file", str(DATA / "train.tsv")),
    *("--dev-file", str(DATA / "dev.tsv")),
    *("--test-file", str(DATA / "test.tsv")),
    *("--output-dir", str(BUNDLE), "--overwrite-output-dir"),
)
save("sst2", run | summary(BUNDLE))
