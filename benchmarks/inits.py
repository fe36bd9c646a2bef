"""What the start and the phases are worth: tinybert-4l-312d on 10,000 rows of SST-2, scored on dev.

Needs the fine-tuned teacher that benchmarks/sst2.py leaves behind.

python benchmarks/inits.py
"""

import sys

from common import BUILD, report_of, save, shared, step

DATA, TEACHER = shared("sst2"), BUILD / "sst2-teacher"
PREDICTION_ONLY = ("--method", "logits", "--hidden-weight", "0")
BOTH_PHASES = ("--method", "tinybert")

if not TEACHER.is_dir():
    sys.exit(f"{TEACHER} is missing; run benchmarks/sst2.py first.")
rows = []
for init in ("random", "projected"):
    for name, method in (("prediction", PREDICTION_ONLY), ("both phases", BOTH_PHASES)):
        bundle = BUILD / f"tinybert-{init}-{name.split()[0]}"
        run = step(
            "distill",
            *("--teacher", str(TEACHER), "--student", "tinybert-4l-312d", "--init", init),
            *("--train-file", str(DATA / "train.tsv"), "--dev-file", str(DATA / "dev.tsv")),
            *("--max-train-samples", "10000", "--num-train-epochs", "2", *method),
            *("--output-dir", str(bundle), "--overwrite-output-dir"),
        )
        report = report_of(bundle)
        fp32 = next(row for row in report["rows"] if row["precision"] == "fp32")
        rows.append(
            {
                "init": report["student"]["init"],
                "trained": name,
                "dev": fp32["score"],
                "interval": fp32["interval"],
                "retention": fp32["retention"],
                "seconds_distill": report["seconds"]["distill"],
                **run,
            }
        )
        save("inits", {"teacher_dev": report["teacher"]["score"], "rows": rows})
