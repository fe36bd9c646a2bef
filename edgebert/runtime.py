"""`Runtime`: text in; labels, numbers, entities, answers, words or vectors out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgebert.bundles.bundle import Bundle
from edgebert.cpu import default_threads
from edgebert.engines.engine import Engine
from edgebert.engines.exit_loading import check_exits, open_exits
from edgebert.engines.loading import open_bundle
from edgebert.formats.exits import ExitArtifact
from edgebert.formats.manifest import Manifest
from edgebert.inputs import SELF_TESTS, check_choice, check_count, check_flag
from edgebert.tasks.answer_methods import AnswerMethods
from edgebert.tasks.choosing import ChoosingMethods
from edgebert.tasks.heads import classify_logits
from edgebert.tasks.masking import MaskingMethods
from edgebert.tasks.ranking import RankingMethods
from edgebert.tasks.tagging_methods import TaggingMethods
from edgebert.types import Classification, RuntimeInfo
from runtimes import SessionOptions


class Runtime(RankingMethods, TaggingMethods, AnswerMethods, ChoosingMethods, MaskingMethods):
    """Runs a bundle. Safe from many threads and after a fork; opens no socket.

    A list in, one result each, in order. ``""`` is the special tokens alone. An input longer than
    ``max_length`` follows ``on_long``: ``"error"``; ``"truncate"``, and the result says how many
    tokens were dropped; or ``"window"``: windows that share some tokens hold all of it, and each
    method says how it puts their results together. The bundle holds the default.

    Attributes:
        info: What was loaded, and why.
    """

    def __init__(
        self,
        bundle: str | Path,
        backend: str = "auto",
        precision: str = "auto",
        *,
        threads: int | None = None,
        max_length: int | None = None,
        self_test: str = "first-load",
        fallback: bool = False,
        early_exit: bool | float = False,
        num_hidden_layers: int | None = None,
    ) -> None:
        """Open a bundle; nothing is downloaded, converted or written beside the cache.

        Args:
            bundle: Directory with an ``edgebert.json``, or without one as ``optimum-cli export``
                writes it: then ``info`` and a warning say that nothing was verified, and int8 is
                run only when it's named, or all that can run here.
            backend: Name of an engine, or ``auto`` for any that is installed. Where several
                artifacts can run here, ``auto`` opens those that half of the memory has room for at
                the first load, times them for 2 seconds at most, takes the fastest, and remembers
                it.
            precision: ``fp32``, ``int8``, ``int4``, or ``auto`` for any; with a named backend, for
                ``int8`` where the bundle has it.
            threads: Threads a call may use, 1024 at most; by default what affinity and cgroup
                grant.
            max_length: Longest input in tokens, special tokens included, up to the model's
                positions; by default the bundle's.
            self_test: When to reproduce the golden outputs: at the ``first-load`` on this machine
                (kept in the cache), ``always``, or ``off``. Hashes of what is opened are checked
                whenever a file isn't as it was when it passed; where ``auto`` opens what an earlier
                load has found, of the other artifacts the sizes alone. ``edgebert verify`` checks
                the hashes of all.
            fallback: Go on with another artifact, and a warning, when the chosen one can't be
                used.
            early_exit: True lets a text leave at the first layer whose exit is sure of its label,
                by the threshold that was calibrated on dev; or a threshold of one's own, an entropy
                from 0 (no text leaves) to 1 (all leave at the first exit). For ``onnx`` and
                ``openvino``, of a bundle that was made with exits. Labels are those of one text a
                call, whatever the batch. Of several engines the preferred is taken, not measured.
            num_hidden_layers: Run so many of the first layers alone, and answer with the exit of
                the last of them; of a bundle that was made with exits.

        Raises:
            InputError: An argument is not allowed, or the bundle has no such artifact, or no exits.
            ManifestError: It is no bundle, or of a newer format.
            DamagedBundleError: A file is missing, cut or changed.
            SelfTestError: The golden outputs don't come out on this machine.
            BackendUnavailableError: The engine is not installed.
            BackendRunError: The engine failed.
        """
        check_choice("self_test", self_test, SELF_TESTS)
        check_flag("fallback", fallback)
        count = default_threads() if threads is None else check_count("threads", threads)
        self._bundle = source = Bundle(bundle)
        self._manifest = manifest = source.manifest
        self._max_length = manifest.max_length
        if max_length is not None:
            self._max_length = check_count("max_length", max_length, most=source.position_limit())
        options = SessionOptions(threads=count, max_length=source.position_limit())
        exits = check_exits(source, early_exit, num_hidden_layers)
        how: dict[str, Any] = {
            "backend": backend,
            "precision": precision,
            "options": options,
            "self_test": self_test,
            "fallback": fallback,
        }
        opened = open_exits(source, exits, **how) if exits else open_bundle(source, **how)
        self._tokenizer, self._engine = opened.tokenizer, opened.engine
        self.info = _info(
            manifest, self._engine, max_length=self._max_length, threads=count, why=opened.why
        )

    def classify(
        self, texts: Iterable[Any], *, top_k: int | None = None, on_long: str | None = None
    ) -> list[Classification]:
        """Give each text, or pair of texts, its label.

        Args:
            texts: Strings; or tuples of two strings for a bundle that was trained on pairs.
            top_k: How many labels ``scores`` keeps, or None for all.
            on_long: See the class. The windows of a text, or of the longer text of a pair, give
                the mean of their logits, each weighted by the tokens that are its own.

        Raises:
            TaskError: The bundle is not for ``text-classification``.
            InputError: A text or an argument is not allowed; a text's index is named.
        """
        self._require("classify")
        manifest = self._manifest
        windowed = self._windowed(*self._as_trained(texts), on_long)
        layers = np.zeros(len(windowed.rows), dtype=np.int64)
        logits = self._text_logits(windowed, width=len(manifest.labels), exit_layers=layers)
        results = classify_logits(
            logits, manifest.labels, manifest.problem_type, top_k, windowed.dropped_tokens
        )
        if self.info.num_hidden_layers is None:
            return results
        ends = np.cumsum([len(windows) for windows in windowed.windows])
        last = [int(own.max()) for own in np.split(layers, ends[:-1])] if len(ends) else []
        return [replace(one, exit_layer=at) for one, at in zip(results, last, strict=True)]


def _info(
    manifest: Manifest, engine: Engine, *, max_length: int, threads: int, why: str
) -> RuntimeInfo:
    artifact = engine.artifact
    exits = artifact if isinstance(artifact, ExitArtifact) else None
    return RuntimeInfo(
        task=manifest.task,
        backend=artifact.backend,
        precision=artifact.precision,
        labels=manifest.labels,
        max_length=max_length,
        hidden_size=manifest.hidden_size,
        artifact=artifact.files[0].path,
        size_bytes=artifact.size_bytes,
        engine=engine.name,
        threads=threads,
        why=why,
        num_hidden_layers=exits.num_hidden_layers if exits else None,
        exit_threshold=exits.threshold if exits and exits.threshold else None,
    )
