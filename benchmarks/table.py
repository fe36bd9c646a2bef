"""Write the measured part of README.md from benchmarks/results/*.json.

python benchmarks/table.py
"""

from __future__ import annotations

import json
from typing import Any

from common import RESULTS, ROOT

START, END = "<!-- measured: benchmarks/table.py -->", "<!-- /measured -->"


def load(name: str) -> Any | None:  # what json.loads gives
    """Read a result, if it was measured."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def span(interval: list[float] | None) -> str:
    """Show a 95 % interval."""
    return "" if interval is None else f" ({interval[0]:.3f} to {interval[1]:.3f})"


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
        f"| {teacher['dev_score']:.4f} | | {teacher['size_bytes'] / 1e6:.1f} MB | "
        f"| {first:.1f} ms | |",
    ]
    lines += [
        f"| student, {row['backend']} {row['precision'].upper()} "
        f"| {row['score']:.4f}{span(row['interval'])} | {row['dev_score']:.4f} "
        f"| {row['retention']:.1%} | {row['size_bytes'] / 1e6:.1f} MB "
        f"| {row['smaller_than_teacher']:.1f}x | {row['latency_ms']['b1_s32']['p50']:.2f} ms "
        f"| {row['speedup_vs_teacher']:.1f}x |"
        for row in result["rows"]
    ]
    used = ", ".join(
        f"{name} {minutes[name] / 60:.1f}" for name in ("teacher", "distill", "export")
    )
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
            f"accuracy of FP32, teacher {tuned[0]['teacher_dev']:.4f}. `python benchmarks/tune.py`",
            "",
            "| changed | dev (95 %) |",
            "|---|---|",
            *(f"| {row['changed']} | {row['dev']:.4f}{span(row['interval'])} |" for row in tuned),
            "",
        ]
    kills = load("kill_resume")
    if kills is not None:
        verdict = "the same" if kills["equal"] else "NOT the same"
        lines += [
            f"**Killed {kills['kills']} times** with SIGKILL at random moments and resumed: "
            f"{verdict} SHA-256 of the weights as unbroken. `{kills['command']}`",
            "",
        ]
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    head, rest = text.split(START, 1)
    tail = rest.split(END, 1)[1]
    readme.write_text(head + START + "\n\n" + "\n".join(lines) + END + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
