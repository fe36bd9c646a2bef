"""Golden inputs: does this tokenizer, with this engine, on this CPU, give what the maker saw?

Quantized models were reported to be right on one Xeon and wrong on the next, and tokenizers to give
other ids after an upgrade, both without an error. So a bundle carries inputs with known results.
"""

from __future__ import annotations

import numpy as np
import tokenizers

from edgebert.cpu import cpu_name
from edgebert.engines.batching import pad
from edgebert.errors import SelfTestError
from edgebert.formats.manifest import Artifact, Manifest
from edgebert.pooling import normalize_rows, text_vectors
from edgebert.text.tokenizer import Encoding, Tokenizer
from edgebert.types import Batch, FloatArray
from runtimes.base import Backend


def golden_encodings(tokenizer: Tokenizer, manifest: Manifest) -> list[Encoding]:
    """Encode the golden texts as they are, without prompts, cut at the manifest's length."""
    golden = manifest.golden
    return tokenizer.encode(
        golden.texts,
        golden.text_pairs,
        max_length=manifest.max_length,
        masks=manifest.task == "fill-mask",
    )


def golden_outputs(backend: Backend, tokenizer: Tokenizer, manifest: Manifest) -> list[FloatArray]:
    """Run each golden text, or pair, alone.

    For ``question-answering`` the texts are questions and their pairs contexts; for
    ``multiple-choice`` they are prompts, and each pair is one choice.

    Args:
        backend: The artifact, opened.
        tokenizer: The bundle's.
        manifest: Its ``golden``, ``task``, ``pooling`` and ``normalize`` are used.

    Returns:
        One flat float32 array a text: its logits, ``[labels]``, or ``[1]`` for a score or a choice;
        ``token-classification`` those of each token, ``[seq * labels]``; ``question-answering``
        those of each start, then of each end, ``[2 * seq]``; ``feature-extraction`` its vector,
        ``[dim]``, of unit length if the bundle says so; ``fill-mask`` the largest logit of each
        token, ``[seq]`` (all of them would be megabytes).
    """
    rows = []
    for encoding in golden_encodings(tokenizer, manifest):
        batch = pad([encoding], pad_id=tokenizer.pad_id)
        rows.append(_golden_row(backend.run(batch), batch, manifest))
    return rows


def _golden_row(outputs: dict[str, FloatArray], batch: Batch, manifest: Manifest) -> FloatArray:
    if manifest.task == "feature-extraction":
        vector = text_vectors(outputs, batch.attention_mask, str(manifest.pooling))
        return np.asarray((normalize_rows(vector) if manifest.normalize else vector)[0])
    if manifest.task == "question-answering":
        return np.concatenate([outputs["start_logits"][0], outputs["end_logits"][0]])
    logits = outputs["logits"][0]
    return np.ravel(logits.max(axis=-1) if manifest.task == "fill-mask" else logits)


def run_self_test(
    backend: Backend, tokenizer: Tokenizer, manifest: Manifest, artifact: Artifact
) -> float:
    """Compare ids and outputs with those in the bundle.

    Returns:
        The largest absolute difference that was found.

    Raises:
        SelfTestError: The tokenizer gives other ids, or an output is off by more than the
            artifact's tolerance, or has another size.
        BackendRunError: The engine failed.
    """
    check_golden_ids(tokenizer, manifest)
    found = golden_outputs(backend, tokenizer, manifest)
    where = f"{artifact.files[0].path} on {backend.engine}, {cpu_name()}"
    if [len(row) for row in found] != [len(row) for row in artifact.golden]:
        raise SelfTestError(
            f"{where} gives outputs of sizes {[len(row) for row in found]}, the bundle has "
            f"{[len(row) for row in artifact.golden]}; make the bundle again."
        )
    worst = 0.0
    for i, (row, expected) in enumerate(zip(found, artifact.golden, strict=True)):
        difference = float(np.abs(row - np.asarray(expected, dtype=np.float32)).max(initial=0.0))
        if not difference <= artifact.tolerance:  # NaN is no pass
            raise SelfTestError(
                f"{where}: golden text {i} is off by {difference:.3g}, allowed is "
                f"{artifact.tolerance:.3g}. Don't trust it on this machine: take another artifact "
                "(precision='fp32'), or pass fallback=True to do so by itself."
            )
        worst = max(worst, difference)
    return worst


def check_golden_ids(tokenizer: Tokenizer, manifest: Manifest) -> None:
    """Make sure that the tokenizer gives the ids that the bundle was made with.

    Raises:
        SelfTestError: It doesn't; the first text that differs is named.
    """
    for i, encoding in enumerate(golden_encodings(tokenizer, manifest)):
        found, expected = encoding.input_ids.tolist(), list(manifest.golden.input_ids[i])
        if found != expected:
            raise SelfTestError(
                f"The tokenizer has changed: golden text {i} gives ids {_short(found)}, the bundle "
                f"was made with {_short(expected)}. Restore tokenizer.json, or install another "
                f"version of tokenizers (here: {tokenizers.__version__})."
            )


def _short(ids: list[int]) -> str:
    return str(ids) if len(ids) <= 12 else f"{str(ids[:12])[:-1]}, … {len(ids)} in all]"
