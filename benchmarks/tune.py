"""Where the defaults of distill come from: one knob at a time, 20,000 rows of SST-2, scored on dev.

Needs the fine-tuned teacher that benchmarks/sst2.py leaves behind. Each row changes one flag of the
first one.

python benchmarks/tune.py [NAME …]
"""

import json
import sys

from common import BUILD, RESULTS, report_of, save, shared, step

DATA, TEACHER = shared("sst2"), BUILD / "sst2-teacher"
BASE = {
    "--learning-rate": "2e-4",
    "--hidden-weight": "1",
    "--layer-map": "uniform",
    "--temperature": "2",
    "--hard-weight": "0",
    "--init": "layers",
    "--dropout": "0.1",
    "--num-train-epochs": "2",
}
VARIANTS = {
    "base": {},
    "learning-rate 1e-4": {"--learning-rate": "1e-4"},
    "learning-rate 4e-4": {"--learning-rate": "4e-4"},
    "hidden-weight 0": {"--hidden-weight": "0"},
    "layer-map 1,3,5": {"--layer-map": "1,3,5"},
    "layer-map 1,3,5, hidden-weight 0": {"--layer-map": "1,3,5", "--hidden-weight": "0"},
    "dropout 0": {"--dropout": "0"},
    "num-train-epochs 4": {"--num-train-epochs": "4"},
    "temperature 1": {"--temperature": "1"},
    "temperature 4": {"--temperature": "4"},
    "hard-weight 0.5": {"--hard-weight": "0.5"},
    "init random": {"--init": "random"},
    "method tinybert": {"--method": "tinybert"},
    "method distilbert": {"--method": "distilbert"},
    "method minilm": {"--method": "minilm"},
}


def measure(name: str) -> dict[str, object]:
    """Distil with one knob changed, and read the dev score of the FP32 artifact."""
    bundle = BUILD / "tune"
    flags = [part for pair in {**BASE, **VARIANTS[name]}.items() for part in pair]
    run = step(
        "distill",
        *("--teacher", str(TEACHER), "--max-train-samples", "20000", *flags),
        *("--train-file", str(DATA / "train.tsv"), "--dev-file", str(DATA / "dev.tsv")),
        *("--output-dir", str(bundle), "--overwrite-output-dir"),
    )
    report = report_of(bundle)
    fp32 = next(row for row in report["rows"] if row["precision"] == "fp32")
    return {
        "changed": name,
        "dev": fp32["score"],
        "interval": fp32["interval"],
        "teacher_dev": report["teacher"]["score"],
        "seconds_distill": report["seconds"]["distill"],
        "command": run["command"],
    }


if not TEACHER.is_dir():
    sys.exit(f"{TEACHER} is missing; run benchmarks/sst2.py first.")
path = RESULTS / "tune.json"
rows = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
for name in sys.argv[1:] or VARIANTS:
    rows = [row for row in rows if row["changed"] != name] + [measure(name)]
    save("tune", rows)
