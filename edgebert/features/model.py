"""A Runtime as extraction sees it: what its vectors are, and texts to vectors in two steps.

This is the one module of the package that looks into a Runtime.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from edgebert.errors import BackendRunError, BundleError, EdgeBertError
from edgebert.features.entries import Entry, Identity, Vectors
from edgebert.features.pieces import entries_of, spans_of
from edgebert.features.rows import Row
from edgebert.features.settings import VectorSettings
from edgebert.inputs import check_count
from edgebert.pooling import HIDDEN
from edgebert.runtime import Runtime
from edgebert.tasks.embedding import token_vectors
from edgebert.tasks.vectors import VectorForm
from edgebert.text.windows import Window, WindowedTexts


@dataclass(frozen=True)
class Prepared:
    """Rows whose texts are tokens.

    Attributes:
        rows: Those that can be run.
        windowed: Their tokens.
        bad: The others, each with why.
    """

    rows: list[Row]
    windowed: WindowedTexts
    bad: list[tuple[Row, str]]


@dataclass(frozen=True)
class Embedded:
    """Rows with their vectors.

    Attributes:
        rows: Those that were run.
        entries: Of each row, one or more.
        vectors: One for each entry of all rows.
        bad: Rows that gave none, each with why.
        tokens: That were run, special tokens counted.
        dropped_tokens: That were cut off.
    """

    rows: list[Row]
    entries: list[list[Entry]]
    vectors: Vectors
    bad: list[tuple[Row, str]] = field(default_factory=list)
    tokens: int = 0
    dropped_tokens: int = 0

    @property
    def every_entry(self) -> list[Entry]:
        """Entries of all rows, as the vectors are."""
        return [entry for entries in self.entries for entry in entries]


class Model:
    """Turns rows into entries with vectors.

    Attributes:
        identity: What all its vectors have in common.
    """

    def __init__(self, runtime: Runtime, settings: VectorSettings) -> None:
        """Take a runtime, which stays open.

        Raises:
            TaskError: Its bundle is not for ``feature-extraction``.
            InputError: The bundle has no such vectors.
        """
        runtime._require("encode")
        self._runtime = runtime
        self._role, self._per_token = settings.role, settings.token_vectors
        manifest = runtime._manifest
        self._long = settings.on_long or {"window": "windows"}.get(
            manifest.on_long, manifest.on_long
        )
        self._form = _token_form(runtime, settings) if self._per_token else _form(runtime, settings)
        self._prompt = runtime._prompt(settings.role)
        self.identity = self._identify()

    @classmethod
    def like(cls, runtime: Runtime, identity: Identity) -> Model:
        """Make vectors as those of a store, as far as this runtime can."""
        manifest = runtime._manifest
        width = manifest.hidden_size if identity.per_token else manifest.vector_size
        settings = VectorSettings(
            role=identity.role,
            dtype=identity.dtype,
            truncate_dim=identity.dim if identity.dim < width else None,
            on_long=identity.long,
            token_vectors=identity.per_token,
        )
        return cls(runtime, settings)

    def prepare(self, rows: Sequence[Row]) -> Prepared:
        """Tokenize the texts of rows without fault."""
        texts = [self._prompt + row.text for row in rows]
        if self._long != "error":
            policy = "truncate" if self._long == "truncate" else "window"
            windowed = self._runtime._windowed(texts, None, policy, prompt=len(self._prompt))
            return Prepared(list(rows), windowed, [])
        most = self._runtime.info.max_length
        whole = self._runtime._tokenizer.encode(texts, max_length=None)
        pairs = list(zip(rows, whole, strict=True))
        fitting = [(row, one) for row, one in pairs if len(one) <= most]
        bad = [
            (row, f"the text has {len(one)} tokens, more than {most}")
            for row, one in pairs
            if len(one) > most
        ]
        kept = [one for _, one in fitting]
        windows = [[Window.whole(one)] for one in kept]
        return Prepared([row for row, _ in fitting], WindowedTexts(kept, windows), bad)

    def embed(self, prepared: Prepared) -> Embedded:
        """Run the texts; where the engine fails, each by itself, to find the rows that are bad.

        Raises:
            EdgeBertError: The engine fails, whatever the text.
        """
        rows, windowed, bad = prepared.rows, prepared.windowed, list(prepared.bad)
        try:
            entries, vectors = self._run(rows, windowed)
        except EdgeBertError as error:
            good, entries, vectors = self._run_alone(rows, windowed, bad, error)
            windowed = _some_of(windowed, good)
            rows = [rows[i] for i in good]
        return Embedded(
            rows,
            entries,
            vectors,
            bad,
            tokens=sum(map(len, windowed.rows)),
            dropped_tokens=int(windowed.dropped_tokens.sum()),
        )

    def _run_alone(
        self, rows: list[Row], windowed: WindowedTexts, bad: list[tuple[Row, str]], why: Exception
    ) -> tuple[list[int], list[list[Entry]], Vectors]:
        good: list[int] = []
        entries: list[list[Entry]] = []
        vectors: list[Vectors] = [self._form.empty]
        for i, row in enumerate(rows):
            try:
                own, found = self._run([row], _some_of(windowed, [i]))
            except EdgeBertError as error:
                bad.append((row, str(error)))
                continue
            good.append(i)
            entries += own
            vectors.append(found)
        if not good:
            self._check_engine(why)
        return good, entries, np.concatenate(vectors)

    def _check_engine(self, why: Exception) -> None:
        """Raise ``why`` when even a text that nothing is wrong with can't be run."""
        golden = self._runtime._manifest.golden.texts
        try:
            self._run_text([*golden[:1], "a"][0])
        except EdgeBertError:
            raise why from None

    def _run_text(self, text: str) -> None:
        row = Row(place="probe", key="probe", text=text)
        prepared = self.prepare([row])
        self._run(prepared.rows, prepared.windowed)

    def _run(
        self, rows: Sequence[Row], windowed: WindowedTexts
    ) -> tuple[list[list[Entry]], Vectors]:
        """Give the entries of each row, and the vectors of all entries.

        Raises:
            BundleError: There are fewer or more vectors than entries, or a text has no token.
            BackendRunError: A number is not finite.
        """
        if not rows:
            return [], self._form.empty
        run = self._of_tokens if self._per_token else self._of_texts
        with np.errstate(over="ignore"):  # what is too large for float16 is refused below
            entries, vectors = run(rows, windowed)
        if len(vectors) != sum(map(len, entries)) or not all(entries):
            raise BundleError(
                f"{len(rows)} texts have {len(vectors)} vectors for {list(map(len, entries))!s:.80}"
                " entries; each text needs one or more, with a vector each."
            )
        if vectors.dtype.kind == "f" and not np.isfinite(vectors).all():
            raise BackendRunError(
                f"A vector holds NaN or infinity as {vectors.dtype}; take another one."
            )
        return entries, vectors

    def _of_texts(
        self, rows: Sequence[Row], windowed: WindowedTexts
    ) -> tuple[list[list[Entry]], Vectors]:
        pooled = self._runtime._pooled(windowed)
        apart = self._long == "chunks"
        vectors = self._form.finish(pooled if apart else windowed.mean(pooled))
        spans = [
            spans_of(windows, len(self._prompt), len(row.text)) if apart else [(0, len(row.text))]
            for row, windows in zip(rows, windowed.windows, strict=True)
        ]
        return [entries_of(row, own) for row, own in zip(rows, spans, strict=True)], vectors

    def _of_tokens(
        self, rows: Sequence[Row], windowed: WindowedTexts
    ) -> tuple[list[list[Entry]], Vectors]:
        found = [
            token_vectors(one.text, one.merged(HIDDEN), prompt=len(self._prompt))
            for one in self._runtime._token_outputs(windowed, (HIDDEN,))
        ]
        entries = [entries_of(row, one.offsets) for row, one in zip(rows, found, strict=True)]
        return entries, self._form.finish(np.concatenate([one.vectors for one in found]))

    def _identify(self) -> Identity:
        runtime, form = self._runtime, self._form
        manifest, artifact = runtime._manifest, runtime._engine.artifact
        files = sorted((one.path, one.sha256) for one in (*manifest.files, *artifact.files))
        facts = json.dumps([files, manifest.pooling_layers, manifest.stride])
        return Identity(
            bundle=hashlib.sha256(facts.encode("utf-8")).hexdigest(),
            backend=artifact.backend,
            precision=artifact.precision,
            pooling="none" if self._per_token else manifest.pooling or "graph",
            normalize=form.normalize,
            prompts=dict(manifest.prompts),
            role=self._role,
            dim=form.dim,
            dtype=form.dtype,
            int8_scale=() if form.scale is None else tuple(map(float, form.scale)),
            max_length=runtime.info.max_length,
            long=self._long,
            per_token=self._per_token,
        )


def _form(runtime: Runtime, settings: VectorSettings) -> VectorForm:
    return VectorForm.of(
        runtime._manifest,
        normalize=None,
        truncate_dim=settings.truncate_dim,
        dtype=settings.dtype,
    )


def _token_form(runtime: Runtime, settings: VectorSettings) -> VectorForm:
    """Give the form of tokens' vectors, which are as the model makes them."""
    width = runtime._manifest.hidden_size
    dim = width
    if settings.truncate_dim is not None:
        dim = check_count("truncate_dim", settings.truncate_dim, most=width)
    return VectorForm(normalize=False, dim=dim, dtype=settings.dtype, scale=None)


def _some_of(windowed: WindowedTexts, places: Sequence[int]) -> WindowedTexts:
    return WindowedTexts([windowed.texts[i] for i in places], [windowed.windows[i] for i in places])
