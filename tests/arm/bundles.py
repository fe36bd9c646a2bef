"""What a bundle for 32-bit ARM has: INT8 that tflite-runtime 2.14 computes rightly."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from compress.artifacts.quantize_tflite import RECIPES, TfliteExporter
from edgebert.engines.selftest import golden_outputs
from edgebert.formats.manifest import FileRecord, Manifest
from edgebert.text.tokenizer import Tokenizer
from runtimes import SessionOptions, load_backend


def with_compatible_int8(source: Path, target: Path) -> Path:
    """Copy a bundle and make its INT8 for LiteRT anew, as ``--recipe tflite=compatible`` does."""
    shutil.copytree(source, target)
    manifest = Manifest.load(target)
    fp32, int8 = (
        next(a for a in manifest.artifacts if (a.backend, a.precision) == ("tflite", precision))
        for precision in ("fp32", "int8")
    )
    path = target / int8.files[0].path
    path.unlink()
    TfliteExporter().quantize(target / fp32.files[0].path, path, recipe="compatible")
    backend = load_backend("tflite", path, SessionOptions(threads=1))
    rows = golden_outputs(backend, Tokenizer(target, special_ids=manifest.special_ids), manifest)
    backend.close()
    made = replace(
        int8,
        files=(FileRecord.of(target, int8.files[0].path),),
        min_engine=RECIPES["compatible"].min_engine,
        recipe={"quantization": "compatible"},
        golden=tuple(tuple(row.tolist()) for row in rows),
    )
    replace(manifest, artifacts=(fp32, made)).save(target)
    return target


def claiming_old_engine(source: Path, target: Path) -> Path:
    """Copy a bundle whose INT8 for LiteRT is said to run on tflite-runtime 2.14, and doesn't."""
    shutil.copytree(source, target)
    manifest = Manifest.load(target)
    artifacts = tuple(
        replace(one, min_engine=RECIPES["compatible"].min_engine)
        if one.backend == "tflite"
        else one
        for one in manifest.artifacts
    )
    replace(manifest, artifacts=artifacts).save(target)
    return target
