"""What benchmarks/compression.py found, as Markdown."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean
from typing import Any

HEAD = (
    "| data, size | student | artifact | size | smaller | one text of 32 tokens | faster | test "
    "| 95 %, first seed | kept | dev | kept | INT8 or INT4 against FP32, worst engine |"
)


def compression(results: dict[str, Any]) -> list[str]:
    """Show each teacher, and of each size the fastest INT8 or INT4 artifact, over its seeds."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, one in results.items():
        groups[name.rpartition("/")[0]].append(one)
    lines = [HEAD, "|" + "---|" * 13]
    told: set[str] = set()
    for name, runs in groups.items():
        data, size = name.split("/")
        if data not in told:
            told.add(data)
            lines.append(_teacher(data, runs[0]))
        seeds = "1 seed" if len(runs) == 1 else f"{len(runs)} seeds"
        lines.append(_student(f"{data}, {size}, {seeds}", runs))
    return lines


def _teacher(data: str, run: dict[str, Any]) -> str:
    one = run["teacher"]
    cells = [
        f"{data}, {run['metric']}",
        "teacher",
        "torch/fp32",
        f"{one['size_bytes'] / 1e6:.1f} MB",
        "",
        f"{one['ms']:.1f} ms",
        "",
        f"{one['test']:.4f}",
        "",
        "",
        f"{one['dev']:.4f}",
        "",
        "",
    ]
    return f"| {' | '.join(cells)} |"


def _student(name: str, runs: list[dict[str, Any]]) -> str:
    first = runs[0]
    best = min(_small(first), key=lambda key: mean(run["rows"][key]["ms"] for run in runs))
    rows = [run["rows"][best] for run in runs]
    low, high = rows[0]["interval"]
    cells = [
        name,
        f"{first['student'] / 1e6:.1f} M",
        best,
        f"{max(row['size_bytes'] for row in rows) / 1e6:.1f} MB",
        f"{min(row['smaller'] for row in rows):.1f}x",
        f"{mean(row['ms'] for row in rows):.2f} ms",
        f"{min(row['faster'] for row in rows):.1f}x",
        _spread([row["score"] for row in rows], ".4f"),
        f"{low:.3f} to {high:.3f}",
        _spread([row["kept"] for row in rows], ".1%"),
        _spread([row["dev"] for row in rows], ".4f"),
        _spread([row["kept_dev"] for row in rows], ".1%"),
        f"{max(_worst_loss(run) for run in runs):+.1%}",
    ]
    return f"| {' | '.join(cells)} |"


def _spread(values: list[float], form: str) -> str:
    """Show a mean, and the least and the most where there are several."""
    if len(values) == 1:
        return f"{values[0]:{form}}"
    return f"{mean(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def _worst_loss(run: dict[str, Any]) -> float:
    """Give the largest part of the metric that any engine's INT8 or INT4 lost against its FP32."""
    rows = run["rows"]
    return max(
        1 - rows[key]["score"] / rows[f"{key.partition('/')[0]}/fp32"]["score"]
        for key in _small(run)
    )


def _small(run: dict[str, Any]) -> list[str]:
    return [key for key in run["rows"] if not key.endswith("/fp32")]
