"""What benchmarks/extraction.py, peers_extract.py and serve.py found, as Markdown."""

from __future__ import annotations

from typing import Any

_NAMES = {
    "fastembed_documents": "fastembed, as Qdrant's `Document`",
    "fastembed_vectors": "fastembed, then upload",
    "sentence_transformers_qdrant": "sentence-transformers, then upload",
    "sentence_transformers_lancedb": "sentence-transformers in LanceDB's registry",
    "sentence_transformers_chroma": "sentence-transformers in Chroma's function",
    "chroma_default": "Chroma's default",
    "edgebert": "`edgebert extract`",
}


def place(result: dict[str, Any]) -> str:
    """Name the machine of a result."""
    return f"{result['machine']['cpu']}, {result['machine']['cores']} cores"


def extraction(result: dict[str, Any]) -> list[str]:
    """Show the rate of encoding alone and into each store, and what it keeps in memory."""
    alone = result["encode_texts_per_s"]
    lines = [
        "| | texts a second | of `encode` | resident memory, median | most | grown in the second "
        "half |",
        "|---|---|---|---|---|---|",
        f"| `Runtime.encode` alone | {alone:,.0f} | | | | |",
    ]
    for name, one in result["stores"].items():
        memory = one["memory_mb"]
        lines.append(
            f"| {name} | {one['texts_per_s']:,.0f} | {one['of_encode']:.0%} "
            f"| {memory['median']:.0f} MB | {memory['most']:.0f} MB | {memory['growth']:.0f} MB |"
        )
    found = ", ".join(f"{dtype} {part:.3f}" for dtype, part in result["recall_at_10"].items())
    return [
        *lines,
        "",
        f"{result['rows']:,} texts; {place(result)}. recall@10 against float32, the sentences of "
        f"STS-B's test split: {found}.",
    ]


def peers_extract(result: dict[str, Any]) -> list[str]:
    """Show all ways into one store together, the quickest first."""
    lines = [
        "| store | way | precision | texts a second | most memory | with start, s | cosine |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in sorted(result["ways"], key=lambda one: (one["store"], -one["texts_per_s"])):
        engine = "torch" if one["way"].startswith("sentence") else "ONNX Runtime"
        lines.append(
            f"| {one['store']} | {_NAMES[one['way']]} | {engine} {one['precision'].upper()} "
            f"| {one['texts_per_s']:,.0f} | {one['memory_mb']:.0f} MB "
            f"| {one['seconds_in_all']:.1f} | {one['cosine_to_torch']:.4f} |"
        )
    versions = {
        name: version
        for one in result["ways"]
        if one["way"] != "edgebert"
        for name, version in one["versions"].items()
    }
    shown = ", ".join(f"{name} {version}" for name, version in versions.items())
    return [
        *lines,
        "",
        f"{result['rows']:,} texts, {result['threads']} threads each, medians of "
        f"{result['repeats']} runs by turns, peers at their defaults; {place(result)}. {shown}.",
    ]


def serve(result: dict[str, Any]) -> list[str]:
    """Show what many clients at once got from the server."""
    latency = result["latency_ms"]
    memory = result["server_memory_mb"]
    cells = [
        str(result["clients"]),
        f"{result['requests']:,}",
        str(result["errors"]),
        str(result["mixed_up"]),
        f"{latency['p50']:.0f} ms",
        f"{latency['p95']:.0f} ms",
        f"{result['requests_per_s']:,.0f}",
        "" if memory is None else f"{memory:.0f} MB",
    ]
    asked = ", ".join(f"{name} {code}" for name, code in result["refused"].items())
    return [
        "| clients | requests | errors | mixed up | p50 | p95 | requests a second | memory |",
        "|" + "---|" * 8,
        f"| {' | '.join(cells)} |",
        "",
        f"{result['seconds']:.0f} s of one text a request, {result['artifact']}; clients and "
        f"server on the same cores ({place(result)}); `Runtime.encode` of all texts together gives "
        f"{result['encode_texts_per_s']:,.0f} a second. Refused: {asked.replace('_', ' ')}.",
    ]
