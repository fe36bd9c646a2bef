"""The main job on SST-2, all 60,614 rows, with every default: what is kept, how small, how fast.

A teacher is fine-tuned and a student distilled from it, both looking at dev alone; at the end both
are scored on test, once. What stands in build/benchmarks is not made again.

python benchmarks/sst2.py
"""

import json

from common import BUILD, evaluate, latencies, save, shared, step, summary

DATA = shared("sst2")
TEACHER, BUNDLE = BUILD / "sst2-teacher", BUILD / "sst2"
FILES = ("--train-file", str(DATA / "train.tsv"), "--dev-file", str(DATA / "dev.tsv"))

for name, folder, flags in (
    ("train", TEACHER, ("--model", "minilm")),
    ("distill", BUNDLE, ("--teacher", str(TEACHER))),
):
    times = folder.with_name(f"{folder.name}.json")
    if not folder.is_dir():
        run = step(name, *flags, *FILES, "--output-dir", str(folder))
        times.write_text(json.dumps(run), encoding="utf-8")
runs = [json.loads((BUILD / f"{name}.json").read_text()) for name in ("sst2-teacher", "sst2")]
result = summary(BUNDLE)
test = str(DATA / "test.tsv")
teacher = evaluate("--model", str(TEACHER), "--test-file", test)["torch/fp32"]
student = evaluate("--model", str(BUNDLE), "--test-file", test)
result["split"] = "test"
result["teacher"] |= {
    "dev_score": result["teacher"]["score"],
    "score": teacher["value"],
    "interval": teacher["interval"],
}
for row in result["rows"]:
    found = student[f"{row['backend']}/{row['precision']}"]
    row["dev_score"], row["score"], row["interval"] = (
        row["score"],
        found["value"],
        found["interval"],
    )
    row["retention"] = found["value"] / teacher["value"]
latency = latencies(TEACHER, BUNDLE)
result["teacher"]["latency_ms"] = latency["torch"]
for row in result["rows"]:
    row["latency_ms"] = latency[f"{row['backend']}/{row['precision']}"]
    first = latency["torch"]["b1_s32"]["p50"]
    row["speedup_vs_teacher"] = first / row["latency_ms"]["b1_s32"]["p50"]
result["seconds"]["teacher"] = runs[0]["seconds_total"]
save(
    "sst2",
    {
        "commands": [run["command"] for run in runs],
        "seconds_total": sum(run["seconds_total"] for run in runs),
        **result,
    },
)
