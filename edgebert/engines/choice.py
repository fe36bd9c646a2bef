"""Which artifact ``auto`` takes on this machine, as far as is known, and why not each other one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgebert.bundles.bundle import Bundle, name_of, why_not_here
from edgebert.engines.measuring import Measured
from edgebert.engines.selection import Selection, affordable
from edgebert.errors import BackendError
from edgebert.formats.manifest import Artifact
from edgebert.formats.strict_json import read_json
from runtimes import SessionOptions

_TIMED = "b1_s32"  # one text of 32 tokens, in report.json


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What ``auto`` takes.

    Attributes:
        taken: The artifact; None where nothing can run, or where nothing was measured yet.
        why: One sentence.
        others: Why each other artifact isn't taken, by the path of its first file.
    """

    taken: Artifact | None
    why: str
    others: dict[str, str] = field(default_factory=dict)


def what_auto_takes(bundle: Bundle, *, threads: int) -> Choice:
    """Say what ``auto`` would run, by what an earlier load has measured; no engine is started."""
    artifacts = bundle.manifest.artifacts
    try:
        runnable = bundle.candidates()
    except BackendError as error:
        return Choice(taken=None, why=f"nothing: {error}", others=_left_out(artifacts, [], []))
    candidates = affordable(runnable)
    others = _left_out(artifacts, runnable, candidates)
    if len(candidates) == 1:
        why = f"{name_of(candidates[0])}: the only artifact that can run here"
        return Choice(taken=candidates[0], why=why, others=others)
    selection = Selection(bundle, candidates, SessionOptions(threads=threads))
    known = selection.remembered()
    if known is None:
        names = ", ".join(map(name_of, candidates))
        why = f"the fastest of {names}; the first load measures which that is"
        unknown = {item.files[0].path: "not measured here yet" for item in candidates}
        return Choice(taken=None, why=why, others={**others, **unknown})
    best, *slower = selection.ranked(known)
    others |= {item.files[0].path: _slower(known, best, item) for item in slower}
    return Choice(
        taken=best, why=selection.explain(known, when="at an earlier load"), others=others
    )


def gate_report(bundle: Bundle) -> dict[str, Any]:
    """Read what the gate found where the bundle was made, if its ``report.json`` came along.

    Returns:
        ``latency_ms``, of one text of 32 tokens there, by path; ``refused``, why each artifact that
        isn't in the bundle was kept out of it, by path; ``cpu``, where that was. Of a report that
        is missing, or a stranger's of other shape, what can be read.
    """
    try:
        report, _ = read_json(bundle.directory / "report.json")
    except (OSError, ValueError):
        report = {}
    rows, refused = _rows(report, "rows"), _rows(report, "refused")
    latency_ms = {path: _get(row, "latency_ms", _TIMED, "p50") for path, row in rows.items()}
    why = {path: _get(row, "gate", "reasons") for path, row in refused.items()}
    cpu = _get(report, "machine", "cpu")
    return {
        "latency_ms": {path: ms for path, ms in latency_ms.items() if isinstance(ms, float | int)},
        "refused": {
            path: " ".join(map(str, reasons)) if isinstance(reasons, list) else ""
            for path, reasons in why.items()
        },
        "cpu": cpu if isinstance(cpu, str) else None,
    }


def _left_out(
    artifacts: Sequence[Artifact], runnable: Sequence[Artifact], candidates: Sequence[Artifact]
) -> dict[str, str]:
    """Say of each artifact that isn't measured at all why that is."""
    found = {}
    for item in artifacts:
        why = why_not_here(item)
        if why is None and item not in runnable:  # of a directory that another exporter wrote
            why = "it passed no gate; name it to run it"
        if why is None and item not in candidates:
            why = "no memory to open it beside the others; name it to run it"
        if why is not None:
            found[item.files[0].path] = why
    return found


def _slower(known: Measured, best: Artifact, other: Artifact) -> str:
    own, fastest = (known.mean_ms(item.files[0].path) for item in (other, best))
    if own is not None and fastest is not None:
        return f"slower here: {own:.3g} ms, {fastest:.3g} ms for {name_of(best)}"
    timed = known.latency_ms[other.files[0].path]
    if not timed:
        return "not measured in the time there is, so taken to be slower"
    length = max(timed)
    return (
        f"slower here: {timed[length]:.3g} ms at {length} tokens, "
        f"{known.latency_ms[best.files[0].path][length]:.3g} ms for {name_of(best)}"
    )


def _rows(report: Any, name: str) -> dict[str, Any]:
    rows = _get(report, name)
    listed = rows if isinstance(rows, list) else []
    return {str(path): row for row in listed if (path := _get(row, "path"))}


def _get(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
