"""The folder of an app: files of the bundle, sample code for the target, a README."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template

from edgebert.apps.characters import character_table
from edgebert.apps.contents import (
    APP_NAME,
    CHARACTERS_NAME,
    GOLDEN_NAME,
    VOCAB_NAME,
    Ports,
    app_json,
    check_task,
    golden_json,
    model_name,
)
from edgebert.apps.wordpiece import read_wordpiece
from edgebert.bundles.bundle import Bundle, name_of
from edgebert.cpu import default_threads
from edgebert.engines.bench import batch_of_length
from edgebert.engines.loading import open_artifact
from edgebert.errors import InputError
from edgebert.files import write_json, write_text
from edgebert.formats.manifest import Artifact, Manifest
from runtimes import SessionOptions

TEMPLATES = Path(__file__).parent / "templates"
_NATIVE = Path(__file__).parents[2] / "examples" / "native"
_LENGTH = 8  # tokens of the text that shows what an artifact gives


@dataclass(frozen=True)
class Target:
    """What an app for a platform is made of.

    Attributes:
        engines: Those that the sample code can run on, the preferred first.
        assets: Where the files of the model go.
        code: Folders of `TEMPLATES`; ``{engine}`` is the artifact's.
    """

    engines: tuple[str, ...]
    assets: str
    code: tuple[str, ...]


TARGETS = {
    "android": Target(("tflite", "onnx"), "assets", ("android", "android-{engine}")),
    "ios": Target(("onnx",), "Resources", ("ios",)),
    "web": Target(("onnx",), "assets", ("web",)),
    "c": Target(("onnx",), "bundle", ("c",)),  # the sample code reads a bundle as it is
}


def choose_artifact(bundle: Bundle, target: str, backend: str, precision: str) -> Artifact:
    """Choose the artifact of an app: the target's preferred engine, int8 before fp32.

    Raises:
        InputError: The bundle has none for an engine of the target; those that it has are named.
        BackendError: Its engine isn't installed here, where it must pass its self-test once more.
    """
    engines = TARGETS[target].engines
    if backend not in ("auto", *engines):
        raise InputError(
            f"The sample code for {target} runs on {' or '.join(engines)}, not on {backend!r}."
        )
    for engine in engines if backend == "auto" else (backend,):
        fitting = [a for a in bundle.manifest.artifacts if a.backend == engine]
        if any(precision in ("auto", item.precision) for item in fitting):
            return bundle.candidates(engine, precision)[0]
    there = ", ".join(map(name_of, bundle.manifest.artifacts))
    raise InputError(
        f"{bundle.directory} has no artifact {'/'.join(engines)} {precision} for {target}; it has: "
        f"{there}. Export one: python -m compress.export --backend {engines[0]}."
    )


def write_app(bundle: Bundle, artifact: Artifact, target: str, folder: Path) -> None:
    """Write the app's files and sample code into an empty folder.

    The artifact is opened and tested first, and its hashes compared. For C it is all but the
    bundle's own files, which are the caller's part.

    Args:
        bundle: For a task of `edgebert.apps.contents.TASKS`.
        artifact: Of the bundle, see `choose_artifact`.
        target: One of `TARGETS`.
        folder: Where to.

    Raises:
        InputError: The sample code can't do the task or the tokenizer, or isn't there.
        BundleError, BackendError: The artifact fails its test.
    """
    manifest = bundle.manifest
    check_task(manifest, bundle.directory)
    words = read_wordpiece(bundle.directory)
    ports = _ports(bundle, artifact)
    if target != "c":
        assets = folder / TARGETS[target].assets
        assets.mkdir(parents=True)
        source = bundle.directory / artifact.files[0].path
        shutil.copyfile(source, assets / model_name(artifact))
        write_text(assets / VOCAB_NAME, words.vocab)
        write_text(assets / CHARACTERS_NAME, character_table(**words.normalizer))
        write_json(assets / APP_NAME, app_json(manifest, artifact, ports, words, target=target))
        write_json(assets / GOLDEN_NAME, golden_json(manifest, artifact))
    for source, path in _code(target, artifact.backend):
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if path == "README.md":
            write_text(place, _filled(source, manifest, artifact))
        else:
            shutil.copyfile(source, place)


def _ports(bundle: Bundle, artifact: Artifact) -> Ports:
    """Test an artifact, and see what it takes and gives."""
    options = SessionOptions(threads=default_threads())
    opened = open_artifact(bundle, artifact, options, "always")
    try:
        backend = opened.engine.backend()
        length = min(_LENGTH, bundle.manifest.max_length)
        outputs = opened.engine.run(batch_of_length(bundle.manifest, length))
        signatures = getattr(backend, "signatures", ())  # of TFLite alone
        return Ports(
            inputs=tuple(backend.inputs), outputs=outputs, length=length, signatures=signatures
        )
    finally:
        opened.engine.close()


def _code(target: str, engine: str) -> Iterator[tuple[Path, str]]:
    """Give each file of the sample code, and its place in the app."""
    for name in TARGETS[target].code:
        folder = TEMPLATES / name.format(engine=engine)
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                yield path, path.relative_to(folder).as_posix()
    if target == "c":
        yield from ((path, f"src/{path.name}") for path in _native())


def _native() -> list[Path]:
    """List the C sources: in the package once it is built, in ``examples`` of a checkout."""
    for folder in (TEMPLATES / "native", _NATIVE):
        found = sorted(path for path in folder.glob("*") if path.suffix in (".c", ".h"))
        if found:
            return [*found, folder / "Makefile"]
    raise InputError(
        "This install lacks the C sources of the sample; install edgebert from a wheel, or run "
        "this in a checkout of it."
    )


def _filled(source: Path, manifest: Manifest, artifact: Artifact) -> str:
    """Fill in what a README says of this very bundle."""
    text = Template(source.read_text(encoding="utf-8"))
    return text.substitute(
        task=manifest.task,
        labels=", ".join(manifest.labels) or "none",
        artifact=name_of(artifact),
        precision=artifact.precision,
        model=model_name(artifact),
        path=artifact.files[0].path,
        size=f"{artifact.size_bytes / 1e6:.1f} MB",
        max_length=manifest.max_length,
        tolerance=f"{artifact.tolerance:.3g}",
    )
