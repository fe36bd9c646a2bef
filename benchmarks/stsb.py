"""A sentence embedder of three layers, from the plain texts of the train splits, scored on STS-B.

The texts are STS-B's train sentences, SST-2's and WikiANN's, without labels.

python benchmarks/stsb.py
"""

from common import BUILD, save, shared, step, summary
from task_data import plain_texts

STSB, BUNDLE = shared("stsb"), BUILD / "stsb"

run = step(
    "distill",
    *("--teacher", "minilm", "--task", "feature-extraction", "--student", "minilm-3l-384d"),
    *("--num-train-epochs", "2"),
    *("--train-file", str(plain_texts())),
    *("--dev-file", str(STSB / "sts-dev.tsv"), "--test-file", str(STSB / "sts-test.tsv")),
    *("--text-column", "5", "--text-pair-column", "6", "--label-column", "4"),
    *("--output-dir", str(BUNDLE), "--overwrite-output-dir"),
)
save("stsb", run | summary(BUNDLE))
