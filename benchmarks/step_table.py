"""What benchmarks/steps.py found, as Markdown."""

from __future__ import annotations

from typing import Any

HEAD = (
    "| step | parameters | FP32, ONNX Runtime | time | test | dev | points lost | smallest INT8 or "
    "INT4 | fastest | test | worst engine against FP32 | minutes |"
)
_TEXT = "onnx/fp32"  # what every step is compared on: one engine, one precision


def steps(results: dict[str, Any]) -> list[str]:
    """Show each row beside the teacher in torch, and what its small artifacts come to."""
    first = next(iter(results.values()))
    teacher = first["teacher"]
    cells = [
        "teacher, torch FP32",
        f"{teacher['size_bytes'] / 4e6:.1f} M",
        f"{teacher['size_bytes'] / 1e6:.1f} MB",
        f"{teacher['ms']:.1f} ms",
        f"{teacher['test']:.4f}",
        f"{teacher['dev']:.4f}",
        *[""] * 6,
    ]
    lines = [HEAD, "|" + "---|" * 12, f"| {' | '.join(cells)} |"]
    return lines + [_row(name, one) for name, one in results.items()]


def _row(name: str, one: dict[str, Any]) -> str:
    full, teacher = one["rows"][_TEXT], one["teacher"]
    small = {key: row for key, row in one["rows"].items() if not key.endswith("/fp32")}
    cells = [
        name,
        f"{one['student'] / 1e6:.1f} M",
        f"{full['size_bytes'] / 1e6:.1f} MB",
        f"{full['ms']:.2f} ms",
        f"{full['score']:.4f}",
        f"{full['dev']:.4f}",
        f"{100 * (teacher['test'] - full['score']):+.1f}",
    ]
    if not small:
        cells += ["refused", "", "", ""]
    else:
        least = min(small, key=lambda key: small[key]["size_bytes"])
        quick = min(small, key=lambda key: small[key]["ms"])
        worst = max(
            1 - row["score"] / one["rows"][f"{key.partition('/')[0]}/fp32"]["score"]
            for key, row in small.items()
        )
        cells += [
            f"{small[least]['size_bytes'] / 1e6:.1f} MB ({least})",
            f"{small[quick]['ms']:.2f} ms ({quick})",
            f"{small[quick]['score']:.4f}",
            f"{worst:+.1%}",
        ]
    cells.append(f"{one['seconds'] / 60:.0f}")
    return f"| {' | '.join(cells)} |"
