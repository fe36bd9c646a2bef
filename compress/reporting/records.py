"""The nouns of a report: what was measured of the teacher, the student and each artifact."""

from __future__ import annotations

from dataclasses import dataclass, field

SPEED_KEY = "b1_s32"  # one text of 32 tokens: what `speedup_vs_teacher` compares


@dataclass(frozen=True)
class Latency:
    """Milliseconds of one call: the median and the 95th percentile."""

    p50: float
    p95: float


@dataclass(frozen=True)
class Parity:
    """How far an artifact's outputs are from the FP32 PyTorch reference.

    Attributes:
        max_abs: Largest absolute difference of any output number.
        cosine_min: Smallest cosine between an output row and the reference's.
    """

    max_abs: float
    cosine_min: float


@dataclass(frozen=True)
class ClassRecord:
    """How one class fares; fractions from 0 to 1, ``support`` in texts."""

    label: str
    recall: float
    precision: float
    support: int


@dataclass(frozen=True, kw_only=True)
class GateRecord:
    """What a gate allowed, what it measured and what it said.

    Attributes:
        passed: Whether the artifact may be used.
        limits: By name, like ``{"max_abs": 1e-4}`` or ``{"relative_loss": 0.01}``.
        numbers: What was measured, by the same names.
        reasons: One sentence a refusal, with its numbers; empty when passed.
        split: On which the gate looked.
        kept_fp32: Parts that stayed FP32 so that the gate could pass.
        kept_int8: Parts of an INT4 artifact that stayed INT8 for that.
    """

    passed: bool
    limits: dict[str, float]
    numbers: dict[str, float] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    split: str = "dev"
    kept_fp32: tuple[str, ...] = ()
    kept_int8: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SplitRecord:
    """One split of the data as it was used.

    Attributes:
        rows: How many it has.
        sha256: Of all of them.
        source: Where it came from.
        measured: How many of them scores and gates looked at; None where there were none, and in
            reports from before it was noted.
    """

    rows: int
    sha256: str
    source: str = ""
    measured: int | None = None

    @property
    def in_part(self) -> bool:
        """Whether scores are of a part of it."""
        return self.measured is not None and self.measured < self.rows


@dataclass(frozen=True, kw_only=True)
class MemberRecord:
    """One of several teachers.

    Attributes:
        requested: What the user asked for.
        used: What was taken.
        params: Parameters, head included.
        dev_score: Its own, see `EnsembleRecord.metric`.
        weight: Its part in the averaged answers, 0 to 1.
    """

    requested: str
    used: str
    params: int
    dev_score: float
    weight: float


@dataclass(frozen=True, kw_only=True)
class EnsembleRecord:
    """Several teachers whose answers are averaged.

    Attributes:
        weighting: ``uniform``, or ``dev`` by their scores on dev.
        metric: Of all scores in it; it also picks the student's weights.
        dev_score: Of the averaged answers on dev, in torch FP32.
        members: All of them, the first one first.
    """

    weighting: str
    metric: str
    dev_score: float
    members: tuple[MemberRecord, ...]


@dataclass(frozen=True, kw_only=True)
class TeacherRecord:
    """The first teacher of the lineage, measured in torch FP32 like its students.

    Attributes:
        requested: What the user asked for.
        used: What was taken; differs after a fallback.
        params: Parameters, head included.
        score: On the report's split; None when the task has no metric on it.
        note: Why ``used`` is not ``requested``, or "".
        interval: 95 % interval of ``score``.
        dev_score: The same metric on dev; None where dev is measured by another.
        engine: Like ``torch 2.13.0``.
        latency_ms: By batch and length, like ``b1_s32``.
        texts_per_s: Throughput in torch on up to 256 texts of dev, by length in batches of up to
            8,192 padded tokens.
        per_class: For ``text-classification``.
        architecture: ``num_hidden_layers``, ``hidden_size``, …
        ensemble: All teachers, where there are several: this is then the first of them.
    """

    requested: str
    used: str
    params: int
    score: float | None
    note: str = ""
    interval: tuple[float, float] | None = None
    dev_score: float | None = None
    engine: str = ""
    latency_ms: dict[str, Latency] = field(default_factory=dict)
    texts_per_s: float | None = None
    per_class: tuple[ClassRecord, ...] = ()
    architecture: dict[str, int] = field(default_factory=dict)
    ensemble: EnsembleRecord | None = None

    @property
    def size_bytes(self) -> int:
        """Its FP32 weights: 4 bytes a parameter."""
        return 4 * self.params


@dataclass(frozen=True, kw_only=True)
class StudentRecord:
    """The model in the bundle.

    Attributes:
        name: Preset or architecture, like ``minilm-3l-384d``.
        params: Parameters, head included.
        score: Of the torch FP32 model on the report's split, if measured.
        architecture: ``num_hidden_layers``, ``hidden_size``, …
        method: Distillation method; "" for a model exported as it is.
        init: How its weights began: ``layers``, ``projected``, ``random``.
    """

    name: str
    params: int
    score: float | None = None
    architecture: dict[str, int] = field(default_factory=dict)
    method: str = ""
    init: str = ""


@dataclass(frozen=True, kw_only=True)
class ArtifactRow:
    """One artifact, measured on the engine that will run it.

    Attributes:
        backend: ``onnx``, …
        precision: ``fp32``, ``int8`` or ``int4``.
        path: The file that the engine opens, relative to the bundle.
        size_bytes: Of all its files; None for one that is refused, which has none.
        score: On the report's split; None when the task has no metric on it.
        parity: Against the FP32 PyTorch reference; None where it wasn't measured.
        latency_ms: By batch and length, like ``b1_s32``.
        texts_per_s: Throughput on dev, in batches of up to 4,096 padded tokens, or one text a call
            where batch-mates matter.
        gate: Its own gate.
        interval: 95 % interval of ``score``.
        dev_score: The same metric on dev; None where dev is measured by another.
        per_class: For ``text-classification``.
        engine: Like ``onnxruntime 1.32.0``.
        recipe: How it was quantized; "" for FP32, and in reports from before it was noted.
    """

    backend: str
    precision: str
    path: str
    size_bytes: int | None
    score: float | None
    parity: Parity | None
    latency_ms: dict[str, Latency]
    texts_per_s: float | None
    gate: GateRecord
    interval: tuple[float, float] | None = None
    dev_score: float | None = None
    per_class: tuple[ClassRecord, ...] = ()
    engine: str = ""
    recipe: str = ""


@dataclass(frozen=True, kw_only=True)
class CandidateRecord:
    """One recipe that was tried on an engine, whatever became of it.

    Attributes:
        backend: ``onnx``, …
        recipe: Its name.
        precision: What it makes, ``int8`` or ``int4``.
        passed: Whether it passed its gate.
        chosen: Whether it is the one in the bundle.
        size_bytes: Of all files; None where nothing was made.
        dev_score: On dev; None where it was not measured.
        error: Mean squared error of the rows of dev, in units of the variance of FP32's.
        latency_ms: Median of one text of 32 tokens; None for one that was refused.
        matmuls: Products by a weight that it converted, and how many there are.
        gathers: The same of look-ups in tables.
        kept_fp32: Parts that stayed FP32 so that the gate could pass.
        kept_int8: Parts that stayed INT8 in INT4 for that.
        reasons: Why it was refused.
        error_by_part: Error of each part quantized alone; empty where it passed at once.
    """

    backend: str
    recipe: str
    passed: bool
    chosen: bool
    size_bytes: int | None = None
    dev_score: float | None = None
    error: float | None = None
    latency_ms: float | None = None
    matmuls: tuple[int, int] | None = None
    gathers: tuple[int, int] | None = None
    kept_fp32: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    error_by_part: dict[str, float] = field(default_factory=dict)
    precision: str = "int8"
    kept_int8: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PhaseRecord:
    """The curves of one phase of training; make it with `compress.reporting.curves.phase_record`.

    Attributes:
        name: ``teacher``, ``intermediate``, ``prediction``, …
        steps: Optimizer steps at which the losses stand.
        terms: Loss by name, one number a step.
        scores: Pairs of step and dev metric; empty when the head isn't trained yet.
        best_step: Whose weights were kept.
        note: One sentence, such as why there is no score.
        metric: Name of ``scores``; "" in reports from before it was noted.
    """

    name: str
    steps: tuple[int, ...]
    terms: dict[str, tuple[float, ...]]
    scores: tuple[tuple[int, float], ...] = ()
    best_step: int | None = None
    note: str = ""
    metric: str = ""
