"""Texts through a bundle into a vector store, each row exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from pathlib import Path

from edgebert.errors import DataError, InputError
from edgebert.features.entries import Identity
from edgebert.features.interrupt import catch_interrupt
from edgebert.features.journal import Journal
from edgebert.features.lock import lock_server, locked, place_of, real_place
from edgebert.features.model import Model
from edgebert.features.pipeline import TOKENS_SHARE, Pipeline
from edgebert.features.quarantine import MAX_BAD, Quarantine
from edgebert.features.removing import MAX_REMOVED, Most, check_max_removed
from edgebert.features.rows import Columns
from edgebert.features.scaling import Scale, embedding
from edgebert.features.settings import Engine, VectorSettings
from edgebert.features.sources import Source
from edgebert.features.stores import open_store, shown_uri
from edgebert.features.stores.base import Store
from edgebert.features.summary import Clock, Summary
from edgebert.features.switching import finish_switch, new_place, require_store, switch
from edgebert.runtime import Runtime


def extract(
    bundle: str | Path | Runtime,
    inputs: object,
    to: str,
    *,
    text_column: str | None = None,
    id_column: str | None = None,
    metadata_columns: Sequence[str] = (),
    input_format: str | None = None,
    role: str | None = "document",
    dtype: str = "float32",
    truncate_dim: int | None = None,
    on_long: str | None = None,
    token_vectors: bool = False,
    update: bool = False,
    into_new: bool = False,
    quarantine: str | Path | None = None,
    max_bad: int | None = MAX_BAD,
    max_removed: Most = MAX_REMOVED,
    workers: int | None = None,
    scale: str | None = None,
    ray_address: str | None = None,
    engine: Engine | None = None,
) -> Summary:
    """Bring the texts of a source into a vector store, each row exactly once.

    Whatever ends a run, the same call goes on where it stopped, and gives the same entries and
    vectors as one that was never stopped. A call for rows that are there already adds nothing.

    Args:
        bundle: Directory of a ``feature-extraction`` bundle, or an open `edgebert.Runtime`.
        inputs: A path, a list of `pathlib.Path` or an iterable, see `Source`.
        to: The store, see `edgebert.features.open_store`.
        text_column: Which column is the text; by default ``text`` or ``sentence``.
        id_column: Which column tells rows apart; by default it's their place.
        metadata_columns: Which columns are kept with each entry.
        input_format: What the source is, where its ending doesn't say.
        role: Whose prompt is put before each text: ``document``, ``query`` or None.
        dtype: ``float32``, ``float16``, ``int8`` or ``binary``.
        truncate_dim: Keep so many of the leading dimensions.
        on_long: What becomes of a text longer than the model takes: ``error`` (a bad row),
            ``truncate``, ``windows`` (one vector, the mean of its windows) or ``chunks`` (an entry
            each); by default as the bundle says.
        token_vectors: Store each token's vector instead of the text's.
        update: Take the source as all that the store shall hold: embed changed rows anew, and
            remove those that are gone. Else both stay as they are.
        into_new: Embed everything into a store beside this one, which takes its place at the end.
        quarantine: JSON lines of the bad rows; by default beside the store.
        max_bad: The bad row after so many stops the run; None never stops it.
        max_removed: With ``update``, how many rows may be removed, a number or (as a float) a share
            of those that were stored; where it would be more, none is, and the run ends with an
            error. None allows any.
        workers: Processes that embed, each with the bundle open; 0 for as many as cores and memory
            allow, which share the threads. By default threads of this process do it, or on Ray a
            worker a CPU, of one thread. The vectors are those of one process with as many threads
            as each worker has, bit for bit; with other numbers an engine may sum otherwise (ONNX
            Runtime: 3e-8 between 1 and 4 threads).
        scale: ``ray`` has the workers on Ray, on one machine or many; None on this machine.
        ray_address: Of a running Ray, ``auto`` or ``host:port``; by default one is begun here, and
            ended.
        engine: How a bundle's directory is opened.

    Returns:
        What was done.

    Raises:
        InputError: An argument is not allowed, the store has vectors of another identity, or
            another run is writing to it.
        DataError: The source can't be read, two rows have one key, too many rows are bad, or too
            many would be removed.
        StoreError: The store failed again and again.
        KeyboardInterrupt: It was asked to stop.
    """
    settings = VectorSettings(
        role=role,
        dtype=dtype,
        truncate_dim=truncate_dim,
        on_long=on_long,
        token_vectors=token_vectors,
    )
    work = Scale(workers=workers, on=scale, ray_address=ray_address)
    work.check(bundle)
    check_max_removed(max_removed)
    columns = Columns(text=text_column, id=id_column, metadata=tuple(metadata_columns))
    source = Source(inputs, columns, kind=input_format)
    bad_path = Path(quarantine) if quarantine is not None else _beside(to)
    source.require_apart(place_of(to), bad_path)
    with ExitStack() as stack:
        interrupt = stack.enter_context(catch_interrupt())
        target, place = to, real_place(to)
        if into_new:
            place, target = new_place(to)
        if place is not None:
            stack.enter_context(locked(place))
            finish_switch(place)
            if into_new:
                require_store(place, to)
        summary, clock = Summary(store=shown_uri(to)), Clock()
        with (
            _opened(
                target, bundle, settings, engine, unfinished=place_of(target) if into_new else None
            ) as (store, runtime, model, journal),
            closing(Quarantine(bad_path, most=max_bad)) as bad,
            embedding(work, bundle, runtime, model, clock, engine) as embedder,
        ):
            share = TOKENS_SHARE if model.identity.per_token else 1
            Pipeline(
                *(embedder, journal, bad, summary, interrupt, clock),
                update=update,
                max_removed=max_removed,
                share=share,
            ).run(source)
            summary.held = len(store)
            summary.quarantine = str(bad.path) if bad.count else None
        if into_new and place is not None:
            if not summary.held:
                raise DataError(f"No row can be used, so {shown_uri(to)} stays as it is.")
            switch(place, to)
    return summary


@contextmanager
def _opened(
    uri: str,
    bundle: str | Path | Runtime,
    settings: VectorSettings,
    engine: Engine | None,
    *,
    unfinished: Path | None,
) -> Iterator[tuple[Store, Runtime, Model, Journal]]:
    """Open a store for a bundle's vectors, and its journal, which agree when this returns."""
    with ExitStack() as stack:
        store = stack.enter_context(open_store(uri))
        runtime = stack.enter_context(opened_runtime(bundle, engine, store.identity))
        model = Model(runtime, settings)
        if store.identity is not None:
            _require(store, model.identity, unfinished=unfinished)
        table = getattr(store, "table", "entries")
        if place_of(uri) is None:
            stack.enter_context(lock_server(store, uri, name=str(table)))
        journal = stack.enter_context(closing(Journal(store, model.identity)))
        journal.settle(place=shown_uri(uri))
        yield store, runtime, model, journal


def _require(store: Store, identity: Identity, *, unfinished: Path | None) -> None:
    """Make sure of what a store holds; ``unfinished`` is where a stopped ``--into-new`` may be."""
    try:
        store.bind(identity)
    except InputError as error:
        said = "" if len(store) else " It holds no entry, so it may be removed."
        if unfinished is not None:
            said = (
                " An earlier run with --into-new, which was stopped, left it: go on with that "
                f"run's settings, or remove {unfinished} to begin anew."
            )
        raise InputError(f"{error}{said}") from error


@contextmanager
def opened_runtime(
    bundle: str | Path | Runtime, engine: Engine | None, identity: Identity | None
) -> Iterator[Runtime]:
    """Open a bundle as a store's vectors were made; a Runtime is taken as it is and stays open.

    Raises:
        InputError: There's a Runtime, and settings for another one.
    """
    if isinstance(bundle, Runtime):
        if engine is not None:
            raise InputError("bundle is a Runtime already, so leave engine out; or give its path.")
        yield bundle
        return
    asked = engine or Engine()
    settings = asdict(asked)
    if identity is not None:
        made = {name: getattr(identity, name) for name in ("backend", "precision", "max_length")}
        settings |= {name: one for name, one in made.items() if settings[name] in ("auto", None)}
    try:
        runtime = Runtime(bundle, **settings)
    except InputError as error:
        if identity is None:
            raise
        raise InputError(
            f"The store was made with {identity.backend}/{identity.precision} and at most "
            f"{identity.max_length} tokens, which {bundle} can't be opened with: {error}"
        ) from error
    with runtime:
        yield runtime


def _beside(uri: str) -> Path | None:
    place = place_of(uri)
    return None if place is None else place.with_name(f"{place.name}.quarantine.jsonl")
