"""Open a model in segments: with early exit, or its first layers alone."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np

from edgebert.bundles.bundle import Bundle, name_of
from edgebert.engines.loading import Opened, open_artifact
from edgebert.errors import BackendError, BundleError, InputError
from edgebert.formats.exits import EarlyExit, ExitArtifact
from edgebert.inputs import check_count
from runtimes import SessionOptions

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Exits:
    """How far a text goes.

    Attributes:
        threshold: See `edgebert.formats.exits.ExitArtifact`; None for that of the artifact.
        layers: How many of the first layers there are; the last one's exit answers the rest.
    """

    threshold: float | None
    layers: int


def check_exits(bundle: Bundle, early_exit: object, num_hidden_layers: object) -> Exits | None:
    """Read a caller's two arguments; None where the whole model is wanted.

    Args:
        bundle: That has exits, if anything but the whole model is wanted.
        early_exit: False, True for the calibrated threshold, or one, 0 to 1.
        num_hidden_layers: How many layers, or None for all.

    Raises:
        InputError: A value is not allowed, or the bundle has no exits.
    """
    wanted = early_exit is not False and early_exit is not np.False_
    if not wanted and num_hidden_layers is None:
        return None
    threshold = _threshold(early_exit) if wanted else 0.0
    exits = bundle.manifest.early_exit
    if exits is None:
        raise InputError(
            f"{bundle.directory} has no exits, so it takes neither early_exit nor "
            "num_hidden_layers. Make a bundle that has them with `python -m compress.distill "
            "--early-exit`, of a text-classification with one label a text."
        )
    layers = exits.num_hidden_layers
    if num_hidden_layers is not None:
        layers = check_count("num_hidden_layers", num_hidden_layers, most=layers)
    return Exits(threshold, layers) if wanted or layers < exits.num_hidden_layers else None


def _threshold(early_exit: object) -> float | None:
    if early_exit is True or early_exit is np.True_:
        return None
    number = isinstance(early_exit, (int, float, np.floating))
    if not number or not 0 <= float(early_exit) <= 1:  # type: ignore[arg-type]
        raise InputError(
            f"early_exit is {early_exit!r}; it must be True, False, or an entropy from 0, where no "
            "text leaves early, to 1, where all leave at the first exit."
        )
    return float(early_exit)  # type: ignore[arg-type]


def open_exits(
    bundle: Bundle,
    exits: Exits,
    *,
    backend: str,
    precision: str,
    options: SessionOptions,
    self_test: str,
    fallback: bool,
) -> Opened:
    """Open the segments for an engine; of several that were not named, int8 first.

    Args:
        bundle: With exits.
        exits: From `check_exits`.
        backend: See `edgebert.Runtime`, as the others.
        precision: …
        options: How the engine may use the machine.
        self_test: …
        fallback: …

    Raises:
        InputError: There are no segments for that engine or precision; those there are are named.
        BundleError, BackendError: As `edgebert.engines.loading.open_bundle`.
    """
    found = bundle.manifest.early_exit
    candidates = _candidates(bundle, found, backend, precision) if found else []
    failures: list[BundleError | BackendError] = []
    for artifact in candidates:
        threshold = artifact.threshold if exits.threshold is None else exits.threshold
        cut = replace(artifact.cut(exits.layers), threshold=threshold)
        why = f"{name_of(artifact)} in segments: {_how(exits, cut)}"
        if failures:
            why += f"; fallback, as others can't be used ({failures[0]})"
        try:
            opened = open_artifact(bundle, cut, options, self_test, why=why)
        except (BundleError, BackendError) as error:
            if not fallback:
                raise
            failures.append(error)
            logger.warning("%s can't be used, going on with another: %s", name_of(artifact), error)
            continue
        logger.info("running %s: %s", bundle.directory, opened.why)
        return opened
    raise failures[0]


def _candidates(
    bundle: Bundle, exits: EarlyExit, backend: str, precision: str
) -> list[ExitArtifact]:
    """List the segments that were asked for and can run here, in the order of the bundle's."""
    whole = bundle.candidates(backend, precision)
    named = {(item.backend, item.precision): item for item in exits.artifacts}
    keys = [(item.backend, item.precision) for item in whole]
    kept = [named[key] for key in keys if key in named]
    if not kept:
        there = ", ".join(map(name_of, exits.artifacts))
        raise InputError(
            f"{bundle.directory} has no segments for {backend}/{precision}, which early_exit and "
            f"num_hidden_layers need; it has: {there}. Name one of these, such as "
            f"backend={exits.artifacts[0].backend!r}."
        )
    return kept


def _how(exits: Exits, artifact: ExitArtifact) -> str:
    layers = f"{artifact.num_hidden_layers} layers"
    if artifact.threshold == 0:
        return f"{layers}, no early exit"
    origin = "calibrated" if exits.threshold is None else "given"
    return f"{layers}, early exit below an entropy of {artifact.threshold:.4g} ({origin})"
