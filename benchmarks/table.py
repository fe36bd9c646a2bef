"""Write the measured part of README.md from benchmarks/results/*.json.

python benchmarks/table.py
"""

from __future__ import annotations

import json
from typing import Any

import engine_tables
import feature_tables
from common import RESULTS, ROOT
from compression_table import compression
from install_table import installs
from step_table import steps

ENGINES = {
    "seven_tasks": "Seven tasks",
    "invariance": "Batch-mates and padding",
    "batching": "Together and one by one",
    "memory": "Resident memory, MB",
    "selection": "What auto takes",
    "cold_start": "From the start of a process to the first vector",
}
FEATURES = {
    "extraction": "**Texts into a store**, beside encoding alone.",
    "peers_extract": "**The same texts and model into the same stores by other libraries.**",
    "serve": "**`edgebert serve`**, one text a request over HTTP.",
}
START, END = "<!-- measured: benchmarks/table.py -->", "<!-- /measured -->"


def load(name: str) -> Any | None:  # what json.loads gives
    """Read a result, if it was measured."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def span(interval: list[float] | None) -> str:
    """Show a 95 % interval."""
    return "" if interval is None else f" ({interval[0]:.3f} to {interval[1]:.3f})"


def shown(score: float | None) -> str:
    """Show a score, where there is one."""
    return "" if score is None else f"{score:.4f}"


def job_table(title: str, script: str, result: dict[str, Any]) -> list[str]:
    """Show teacher and artifacts of one job."""
    teacher = result["teacher"]
    minutes = result["seconds"]
    first = teacher["latency_ms"]["b1_s32"]["p50"]
    lines = [
        f"**{title}** `python benchmarks/{script}.py`",
        "",
        f"| | {result['metric']}, {result['split']} (95 %) | dev | kept | size | smaller "
        "| one text of 32 tokens | faster |",
        "|---|---|---|---|---|---|---|---|",
        f"| teacher, torch FP32 | {teacher['score']:.4f}{span(teacher['interval'])} "
        f"| {shown(teacher['dev_score'])} | | {teacher['size_bytes'] / 1e6:.1f} MB | "
        f"| {first:.1f} ms | |",
    ]
    lines += [
        f"| student, {row['backend']} {row['precision'].upper()} "
        f"| {row['score']:.4f}{span(row['interval'])} | {shown(row['dev_score'])} "
        f"| {row['retention']:.1%} | {row['size_bytes'] / 1e6:.1f} MB "
        f"| {row['smaller_than_teacher']:.1f}x | {row['latency_ms']['b1_s32']['p50']:.2f} ms "
        f"| {row['speedup_vs_teacher']:.1f}x |"
        for row in result["rows"]
    ]
    spent = {name: minutes.get(name, 0.0) for name in ("teacher", "distill")}
    spent["export"] = sum(took for name, took in minutes.items() if name.startswith("export_"))
    used = ", ".join(f"{name} {took / 60:.1f}" for name, took in spent.items())
    return [
        *lines,
        "",
        f"Student `{result['student']['name']}`, {result['data_rows']['train']:,} training rows; "
        f"{result['seconds_total'] / 60:.0f} minutes in all ({used}), on {machine(result)}.",
        "",
    ]


def machine(result: dict[str, Any]) -> str:
    """Name the machine of a result."""
    found = result["machine"]
    return f"{found['cpu']}, {found['threads']} threads for torch and engines alike"


def all_rows() -> str:
    """Compare the defaults with the first trial on all rows; its test was read as well."""
    now, first = load("sst2"), load("sst2_two_epochs")
    if now is None or first is None:
        return ""
    ours, theirs = now["rows"][0], first["rows"][0]
    return (
        f"On all rows the defaults (4 epochs, no dropout) have {ours['dev_score']:.4f} on dev; a "
        f"first trial of 2 epochs with dropout 0.1 had {theirs['dev_score']:.4f} (test "
        f"{theirs['score']:.4f}, {theirs['retention']:.1%} of its teacher), so test was read twice."
    )


def engine_lines() -> list[str]:
    """Show what was measured of the engines; whole tables go to ``benchmarks/ENGINES.md``."""
    found = {name: result for name in ENGINES if (result := load(name)) is not None}
    tables = [
        f"## {title}\n\n" + "\n".join(getattr(engine_tables, name)(found[name])).rstrip() + "\n"
        for name, title in ENGINES.items()
        if name in found
    ]
    text = "# The engines, measured\n\nWritten by `python benchmarks/table.py`.\n\n" + "\n".join(
        tables
    )
    (ROOT / "benchmarks" / "ENGINES.md").write_text(text, encoding="utf-8")
    lines: list[str] = []
    if "seven_tasks" in found:
        lines += [
            "**Seven tasks on three engines**, students of three layers, minutes of training on "
            "parts of public data; whole test splits. `python benchmarks/seven_tasks.py`",
            "",
            *engine_tables.seven_tasks(found["seven_tasks"]),
            "",
            *engine_tables.misses(found["seven_tasks"]),
        ]
    said = engine_tables.summaries(found)
    return (
        [*lines, *said, "", "All figures: [benchmarks/ENGINES.md](benchmarks/ENGINES.md).", ""]
        if said
        else lines
    )


def feature_lines() -> list[str]:
    """Show what was measured of vectors into stores and of the server."""
    lines: list[str] = []
    for name, title in FEATURES.items():
        result = load(name)
        if result is not None:
            table = getattr(feature_tables, name)
            lines += [f"{title} `python benchmarks/{name}.py BUNDLE`", "", *table(result), ""]
    return lines


def main() -> None:
    """Fill in what was measured; what wasn't is left out."""
    lines: list[str] = []
    for name, title in (
        ("sst2", "Sentences, SST-2, every default."),
        ("stsb", "Sentence vectors, STS-B, three layers, from plain text."),
    ):
        result = load(name)
        if result is not None:
            lines += job_table(title, name, result)
    sizes = load("compression")
    if sizes is not None:
        lines += [
            "**How far a student goes**, of a teacher whose vocabulary was cut to the train texts; "
            "ratios to the teacher before that, in torch FP32 with equal threads. Flags were "
            "chosen on sentences held out of train; test is read once a student. "
            "`python benchmarks/compression.py`",
            "",
            *compression(sizes),
            "",
        ]
    each = load("steps")
    if each is not None:
        lines += [
            "**What each step saves and costs**, alone from the same teacher of SST-2, and in a "
            "chain; one seed. `python benchmarks/steps.py`",
            "",
            *steps(each),
            "",
        ]
    inits = load("inits")
    if inits is not None:
        lines += [
            "**Starts and phases**, `tinybert-4l-312d`, 10,000 rows of SST-2, dev accuracy of FP32 "
            f"(teacher {inits['teacher_dev']:.4f}). `python benchmarks/inits.py`",
            "",
            "| start | trained | dev (95 %) | kept |",
            "|---|---|---|---|",
            *(
                f"| {row['init']} | {row['trained']} | {row['dev']:.4f}{span(row['interval'])} "
                f"| {row['retention']:.1%} |"
                for row in inits["rows"]
            ),
            "",
        ]
    tuned = load("tune")
    if tuned is not None:
        lines += [
            "**Defaults**, one knob at a time, `minilm-3l-384d`, 20,000 rows of SST-2, dev "
            f"accuracy of FP32, a trial's teacher of {tuned[0]['teacher_dev']:.4f}. "
            "`python benchmarks/tune.py`",
            "",
            "Base: rate 2e-4, uniform layers, hidden weight 1, temperature 2, dropout 0.1, "
            "2 epochs. Knobs that aren't here have their papers' values. " + all_rows(),
            "",
            "| changed | dev (95 %) |",
            "|---|---|",
            *(f"| {row['changed']} | {row['dev']:.4f}{span(row['interval'])} |" for row in tuned),
            "",
        ]
    lines += feature_lines()
    lines += engine_lines()
    sizes_on_disk = load("install_sizes")
    if sizes_on_disk is not None:
        lines += [
            f"**What an install takes**, wheels for Python {sizes_on_disk['python']} unpacked. "
            "`python -m benchmarks.install_sizes`",
            "",
            *installs(sizes_on_disk),
        ]
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    head, rest = text.split(START, 1)
    tail = rest.split(END, 1)[1]
    readme.write_text(head + START + "\n\n" + "\n".join(lines) + END + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
