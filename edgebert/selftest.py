"""Golden inputs: does this tokenizer, with this engine, on this CPU, give what the maker saw?

Quantized models were reported to be right on one Xeon and wrong on the next, and tokenizers to give
other ids after an upgrade, both without an error. So a bundle carries inputs with known results.
"""

from __future__ import annotations

import numpy as np
import tokenizers

from edgebert.batching import pad
from edgebert.cpu import cpu_name
from edgebert.errors import SelfTestError
from edgebert.manifest import Artifact, Manifest
from edgebert.pooling import normalize_rows, pool
from edgebert.tokenizer import Encoding, Tokenizer
from edgebert.types import FloatArray
from runtimes.base import Backend


def golden_encodings(tokenizer: Tokenizer, manifest: Manifest) -> list[Encoding]:
    """Encode the golden texts as they are, without prompts, cut at the manifest's length."""
    golden = manifest.golden
    return tokenizer.encode(golden.texts, golden.text_pairs, max_length=manifest.max_length)


def golden_outputs(backend: Backend, tokenizer: Tokenizer, manifest: Manifest) -> list[FloatArray]:
    """Run each golden text alone.

    Args:
        backend: The artifact, opened.
        tokenizer: The bundle's.
        manifest: Its ``golden``, ``task``, ``pooling`` and ``normalize`` are used.

    Returns:
        One flat float32 array a text: ``text-classification`` its logits, ``[labels]``;
        ``feature-extraction`` its pooled vector, ``[hidden]``, of unit length if the bundle says
        so; ``fill-mask`` the largest logit of each token, ``[seq]`` (all of them would be
        megabytes).
    """
    rows = []
    for encoding in golden_encodings(tokenizer, manifest):
        batch = pad([encoding], pad_id=tokenizer.pad_id)
        outputs = backend.run(batch)
        if manifest.task == "feature-extraction":
            how = str(manifest.pooling)
            vector = pool(outputs["last_hidden_state"], batch.attention_mask, how)
            rows.append((normalize_rows(vector) if manifest.normalize else vector)[0])
        elif manifest.task == "fill-mask":
            rows.append(outputs["logits"][0].max(axis=-1))
        else:
            rows.append(outputs["logits"][0])
    return rows


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
