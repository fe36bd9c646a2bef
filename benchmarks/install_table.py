"""What `benchmarks.install_sizes` measured, as Markdown."""

from __future__ import annotations

from typing import Any

ENGINES = ("", "onnx", "openvino", "tflite")


def installs(result: dict[str, Any]) -> list[str]:
    """Show each platform's sets, then what other libraries bring, then where wheels are."""
    sizes = {tuple(row["key"]): row for row in result["rows"]}
    platforms = list(dict.fromkeys(platform for platform, _ in sizes))
    lines = [
        "| installed, MB | base | with onnx | with openvino | with tflite |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | "
            + " | ".join(_cell(sizes.get((name, engine))) for engine in ENGINES)
            + " |"
            for name in platforms
        ),
        "",
        "All that `pip` brings, and in brackets without what is declared but not needed to run "
        "(`pip install --no-deps edgebert tokenizers numpy ENGINE`). 32-bit ARM: beside the "
        "distribution's own numpy, which isn't counted.",
        "",
    ]
    others = [(row["key"][0], row["declared"]) for row in result["others"] if row["declared"]]
    if others:
        spelled = ", ".join(f"{name} {found['bytes'] / 1e6:,.0f}" for name, found in others)
        lines += [f"Other libraries on Linux x86-64, MB: {spelled} (torch for CPUs).", ""]
    missing = [
        f"{row['package']} on {row['key'][0]} for {' and '.join(lacking)}"
        for row in result["wheels"]
        if (lacking := [python for python, found in row["versions"].items() if found is None])
    ]
    if result["wheels"]:
        lack = f" but {', '.join(missing)}" if missing else ""
        lines += [f"Every engine has wheels for Python 3.10 to 3.14{lack}.", ""]
    return lines


def _cell(row: dict[str, Any] | None) -> str:
    """Show both sizes, this project's own included."""
    if row is None:
        return "none"
    own = row["edgebert_bytes"]
    whole, least = (
        None if row[name] is None else f"{(row[name]['bytes'] + own) / 1e6:.0f}"
        for name in ("declared", "needed")
    )
    return f"{whole} ({least})" if whole else f"({least})" if least else "none"
