"""What was measured of the engines, as Markdown: rows for the README and whole tables beside it."""

from __future__ import annotations

from typing import Any

import numpy as np

INVARIANT_BATCHES = (1, 2, 7, 32)


def seven_tasks(results: dict[str, Any]) -> list[str]:
    """Show each task's metric on test, the FP32 engines' agreement, and INT8's metric."""
    lines = [
        "| task, data | metric, rows | teacher | student FP32 | FP32 engines differ by at most "
        "| same predictions | INT8: ONNX Runtime | OpenVINO | LiteRT |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, one in results.items():
        full = [value for key, value in one["scores"].items() if key.endswith("fp32")]
        pairs = one["fp32"].values()
        same = {pair["same_predictions"] for pair in pairs}
        cells = [
            f"{name}, {one['task']}",
            f"{one['metric']}, {one['rows']:,}",
            f"{one['teacher']:.4f}",
            " / ".join(dict.fromkeys(f"{value:.4f}" for value in full)),
            f"{max(pair['max_abs'] for pair in pairs):.1e}",
            {(True,): "all", (None,): "a number"}.get(tuple(same), "not all"),
            *(_int8(one, backend) for backend in ("onnx", "openvino", "tflite")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def misses(results: dict[str, Any]) -> list[str]:
    """Name the tasks whose artifacts differ by more than `seven_tasks.py` allows."""
    names = [name for name, one in results.items() if not one["holds"]]
    if not names:
        return []
    lost = ", ".join(
        f"{name} ({max(results[name]['int8_relative_loss'].values()):.1%} lost)" for name in names
    )
    return [f"Over the limit of 1 %: {lost}.", ""]


def _int8(one: dict[str, Any], backend: str) -> str:
    key = f"{backend}/int8"
    if key not in one["scores"]:
        return "refused"
    kept = one["kept_fp32"].get(key)
    return f"{one['scores'][key]:.4f}" + (f", {len(kept)} parts FP32" if kept else "")


def invariance(results: dict[str, Any]) -> list[str]:
    """Show the largest difference of any length, by size of the batch."""
    lines = [
        "| bundle, task | artifact | alone, padded | of 2 | of 7 | of 32 | lengths "
        "| in one batch instead |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, one in results.items():
        for artifact, found in one["artifacts"].items():
            worst = {rows: max(by.values()) for rows, by in found["as_run"].items()}
            lengths = [int(length) for by in found["as_run"].values() for length in by]
            other = max(max(by.values()) for by in found["in_one_batch"].values())
            lines.append(
                f"| {name}, {one['task']} | {artifact} | "
                + " | ".join(f"{worst[str(rows)]:.1e}" for rows in INVARIANT_BATCHES)
                + f" | 1 to {max(lengths)} | "
                + ("the same |" if found["batch_invariant"] else f"{other:.1e} |")
            )
    return lines


def batching(results: dict[str, Any]) -> list[str]:
    """Show texts a second, and how many times as fast they are together."""
    lines = [
        "| bundle, task | artifact | run | mixed: one by one, together | | short: one by one, "
        "together | |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, one in results.items():
        for artifact, found in one["artifacts"].items():
            cells = [f"{name}, {one['task']}", artifact]
            cells.append("in batches" if found["batch_invariant"] else "one text a call")
            for workload in ("mixed", "short"):
                speed = found[workload]["texts_per_s"]
                cells.append(f"{speed['one_by_one']:.0f}, {speed['together']:.0f} texts/s")
                cells.append(f"{found[workload]['ratio']:.2f}x")
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def memory(results: dict[str, Any]) -> list[str]:
    """Show the resident MB after numbers of texts."""
    marks = [
        int(mark) for one in results.values() for mark in next(iter(one["artifacts"].values()))
    ]
    marks = sorted(set(marks))
    lines = [
        f"| bundle, task | artifact | opened | {' | '.join(f'{m:,}' for m in marks[1:])} texts |",
        "|---|---|" + "---|" * len(marks),
    ]
    for name, one in results.items():
        for artifact, found in one["artifacts"].items():
            cells = [f"{found[str(mark)]:.0f}" for mark in marks]
            lines.append(f"| {name}, {one['task']} | {artifact} | {' | '.join(cells)} |")
    return lines


def selection(results: dict[str, Any]) -> list[str]:
    """Show the latency of every artifact at each length, and what ``auto`` took."""
    lines: list[str] = []
    for name, one in results.items():
        shapes = list(one["rows"][0]["latency_ms"])
        heads = [f"{shape.partition('_s')[2]} tokens" for shape in shapes]
        lines += [
            f"| {name}, one text, ms | {' | '.join(heads)} |",
            "|---|" + "---|" * len(shapes),
        ]
        for row in one["rows"]:
            cells = [f"{row['latency_ms'][shape]['p50']:.2f}" for shape in shapes]
            lines.append(f"| {row['backend']} {row['precision']} | {' | '.join(cells)} |")
        for auto in one["auto"]:
            over = " | ".join(f"{auto['over_best'][shape]:.2f}x" for shape in shapes)
            lines.append(f"| auto: {auto['path']} | {over} |")
        lines.append("")
    return lines


def cold_start(results: dict[str, Any]) -> list[str]:
    """Show the seconds from the start of a process to its first vector."""
    lines = [
        "| backend, precision | self-test cached | with the self-test | Python and NumPy alone |",
        "|---|---|---|---|",
    ]
    for one in results.values():
        cached, tested = one["self_test_cached"], one["with_self_test"]
        lines.append(
            f"| {one['backend']} {one['precision']} | {cached['process_s']:.2f} s "
            f"| {tested['process_s']:.2f} s | {one['python_and_numpy_s']:.2f} s |"
        )
    return lines


def summaries(found: dict[str, dict[str, Any]]) -> list[str]:
    """Say in a sentence each what the tables beside the README show.

    Args:
        found: Results by name; those that were not measured are left out.
    """
    said = {
        "invariance": _say_invariance,
        "batching": _say_batching,
        "memory": _say_memory,
        "selection": _say_selection,
        "cold_start": _say_cold_start,
    }
    return [f"- {say(found[name])}" for name, say in said.items() if name in found]


def _artifacts(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [found for one in results.values() for found in one["artifacts"].values()]


def _say_invariance(results: dict[str, Any]) -> str:
    worst = max(
        value
        for one in _artifacts(results)
        for by in one["as_run"].values()
        for value in by.values()
    )
    return (
        f"**Batch-mates and padding**: the largest difference of any number that a model gives, "
        f"alone or in a batch of 2, 7 or 32, at 1 to 512 tokens, is {worst:.1e} "
        f"({len(_artifacts(results))} artifacts; `python benchmarks/invariance.py`)."
    )


def _say_batching(results: dict[str, Any]) -> str:
    ratios = [one[work]["ratio"] for one in _artifacts(results) for work in ("mixed", "short")]
    return (
        f"**Batching**: 300 texts together are {min(ratios):.2f} to {max(ratios):.2f} times as "
        f"fast as one by one ({len(_artifacts(results))} artifacts; "
        "`python benchmarks/batching.py`)."
    )


def _say_memory(results: dict[str, Any]) -> str:
    growth = [one["20000"] - one["5000"] for one in _artifacts(results)]
    return (
        "**Memory**: from 5,000 to 20,000 texts of random length a process grows by "
        f"{max(growth):.1f} MB at most (`python benchmarks/memory.py`)."
    )


def _say_selection(results: dict[str, Any]) -> str:
    over = [
        value
        for one in results.values()
        for auto in one["auto"]
        for value in auto["over_best"].values()
    ]
    return (
        f"**`auto`** took an artifact whose latency is {min(over):.2f} to {max(over):.2f} times "
        f"that of the best at 8, 32, 128 and 512 tokens, median {float(np.median(over)):.2f} "
        "(`python benchmarks/selection.py`)."
    )


def _say_cold_start(results: dict[str, Any]) -> str:
    cached = min(one["self_test_cached"]["process_s"] for one in results.values())
    tested = min(one["with_self_test"]["process_s"] for one in results.values())
    return (
        f"**Start**: {cached:.2f} s from a new process to the first vector with a self-test from "
        f"before, {tested:.2f} s with it, backend named, one thread, INT8, six layers "
        "(`python -m benchmarks.cold_start`)."
    )
