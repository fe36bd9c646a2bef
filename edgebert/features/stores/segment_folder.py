"""Where the files of a store stand that is a folder, and when they change.

New entries are appended to a log, a `edgebert.features.stores.pair.Pair`, and count once the
catalog has them. What is replaced or deleted is only taken out of the catalog. Closing the store
brings the files into the form that others read: without gaps, without what no longer counts, with
an index. The new files are staged, then the catalog's generation is raised, then they take their
places, so whoever is killed in between leaves the old state or the new one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from edgebert.errors import InputError, PackageMissingError
from edgebert.features.entries import Identity
from edgebert.features.stores import staging
from edgebert.features.stores.base import Sql, Store
from edgebert.features.stores.catalog import Catalog, Part, lock_writing
from edgebert.features.stores.checks import check_writable
from edgebert.features.stores.folders import require_room
from edgebert.features.stores.pair import LINES, VECTORS, Pair
from edgebert.features.stores.staging import INNER, storing
from edgebert.files import recover_directory, sync_directory, write_text

_CATALOG, _LOCK, _IDENTITY = "catalog.db", "lock.db", "identity.json"


class SegmentFolder(Store):
    """A folder with a catalog, a log, and the files that a kind of store makes of it.

    One process writes at a time; any number read meanwhile.
    """

    needs: ClassVar[str | None] = None  # a package, by its import name
    log_folder: ClassVar[str] = "."  # within the store's

    def __init__(self, folder: Path, *, read_only: bool) -> None:
        self._folder, self._read_only = folder, read_only
        self._place = f"{self.kind}:{folder}"
        self._held = ExitStack()  # the catalog and the lock
        self._open_catalog: Catalog | None = None
        self._open_log: Pair | None = None
        self._identity: Identity | None = None
        self._generation = 0

    @classmethod
    def open(cls, location: str, *, read_only: bool = False) -> SegmentFolder:
        """See `Store.open`; ``location`` is a folder."""
        if cls.needs and find_spec(cls.needs) is None:
            raise PackageMissingError(
                f"A store of the kind {cls.kind} needs the package {cls.needs!r}, which is not "
                f"installed. Install it with: {cls.install}"
            )
        store = cls(Path(location).absolute(), read_only=read_only)
        if not (store._folder / INNER / _CATALOG).is_file():
            require_room(store._folder, kind=cls.kind, own=(INNER,), read_only=read_only)
            return store
        try:
            with storing(store._place):
                store._start()
        except BaseException:
            store._let_go()
            raise
        return store

    def _start(self) -> None:
        """Open the catalog, and finish what a killed process began."""
        inner = self._folder / INNER
        if not self._read_only:
            lock = lock_writing(inner / _LOCK, place=self._place)
            self._held.callback(lock.close)
        catalog = Catalog(inner / _CATALOG, read_only=self._read_only, place=self._place)
        self._held.callback(catalog.close)
        kind = catalog.fact("kind")
        if kind not in (None, self.kind):
            raise InputError(f"{self._folder} is a store of another kind: open {kind}:… instead.")
        self._open_catalog = catalog
        with self._view():
            pass
        if self._identity is not None and not self._read_only:
            self._finish()

    @property
    def _catalog(self) -> Catalog:
        assert self._open_catalog is not None  # whoever has an identity has it
        return self._open_catalog

    @property
    def _log(self) -> Pair:
        assert self._open_log is not None  # as above
        return self._open_log

    # What each kind does in its own way

    @abstractmethod
    def _stage(self, place: Path) -> bool:
        """Write the files of the next generation, and move their entries in the catalog.

        Args:
            place: An empty folder, whose files shall take their places in the store's.

        Returns:
            Whether anything must change.
        """

    def _forget_files(self) -> None:
        """Let go of files that may have been replaced."""
        if self._open_log is not None:
            self._open_log.close()
        self._open_log = None

    def _sweep(self) -> None:
        """Remove files that the catalog doesn't know any more."""

    def _after_commit(self) -> None:
        """Do what must not wait until the store is closed."""

    # State

    @property
    def identity(self) -> Identity | None:
        """See `Store.identity`."""
        return self._identity

    def bind(self, identity: Identity) -> None:
        """See `Store.bind`."""
        if self._identity is None:
            check_writable(read_only=self._read_only, place=self._place)
            with storing(self._place):
                self._begin(identity)
        assert self._identity is not None
        self._identity.require(identity, place=self._place)

    def _begin(self, identity: Identity) -> None:
        (self._folder / INNER).mkdir(parents=True, exist_ok=True)
        sync_directory(self._folder.parent)
        if self._open_catalog is None:
            self._start()
        if self._identity is None:  # no other process was quicker
            Pair.create(self._folder / self.log_folder, identity).close()
            recover_directory(self._folder / INNER / _IDENTITY)
            write_text(self._folder / INNER / _IDENTITY, identity.to_json() + "\n")
            sync_directory(self._folder)
            with self._catalog.transaction():
                self._catalog.set_fact("kind", self.kind)
                self._catalog.set_fact("identity", identity.to_json())
                self._catalog.set_part(0, Part(0, 0, 0))
            with self._view():
                pass

    @contextmanager
    def _view(self) -> Iterator[None]:
        """Hold what is seen as it is: no file is replaced before the block ends."""
        if self._open_catalog is None:
            yield
            return
        with storing(self._place), self._open_catalog.transaction("BEGIN"):
            self._look_again()
            yield

    def _look_again(self) -> None:
        """Take the files that the catalog means now."""
        if self._identity is None and (text := self._catalog.fact("identity")):
            self._identity = Identity.from_json(text)
        generation = int(self._catalog.fact("generation") or 0)
        if generation != self._generation:
            self._forget_files()
            self._generation = generation
        if self._identity is not None and (self._open_log is None or self._read_only):
            self._settle()

    def _settle(self) -> None:
        """Take of the log what counts."""
        if self._open_log is None:
            assert self._identity is not None
            vectors, lines = (
                staging.path_now(self._folder, self._generation, f"{self.log_folder}/{name}")
                for name in (VECTORS, LINES)
            )
            self._open_log = Pair(vectors, lines, self._identity, read_only=self._read_only)
        log = self._catalog.parts()[0]
        self._open_log.settle(log.rows, log.bytes)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Store.transaction`."""
        if self._open_catalog is None or self._catalog.in_transaction:
            yield
            return
        try:
            with self._catalog.transaction():
                self._look_again()
                yield
        finally:
            if self._identity is not None:
                self._settle()
        self._after_commit()

    def sql(self) -> Sql | None:
        """See `Store.sql`: the catalog, which is there once the store is bound."""
        return self._open_catalog

    def journal_path(self) -> Path | None:
        """See `Store.journal_path`: there is none, as `sql` gives a database."""
        return None

    def _publish(self) -> None:
        """Bring the files into the form that others read, as `close` does."""
        self._finish()  # what an interrupt may have left
        try:
            with self._catalog.transaction():
                place = staging.begin(self._folder, self._generation + 1)
                if self._stage(place):
                    staging.sync(place)
                    self._catalog.set_fact("generation", str(self._generation + 1))
        finally:
            self._finish()

    def _finish(self) -> None:
        """Bring to its place what is staged, if the catalog says so, else remove it."""
        generation = int(self._catalog.fact("generation") or 0)
        if generation != self._generation or staging.staged(self._folder, generation).exists():
            self._forget_files()
            self._generation = generation
        staging.take_places(self._folder, generation)
        self._sweep()
        self._settle()

    def close(self) -> None:
        """See `Store.close`. Where much must be moved or indexed, this is long."""
        try:
            if self._identity is not None and self._open_catalog and not self._read_only:
                with storing(self._place):
                    self._publish()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._forget_files()
        self._open_catalog, self._identity = None, None
        self._held.close()
