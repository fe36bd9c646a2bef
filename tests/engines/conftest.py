"""One bundle a task and one Runtime an artifact, made when the first test asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import edgebert
from runtimes import BACKENDS
from tests.engines.bundles import missing

PRECISIONS = ("fp32", "int8")
ARTIFACTS = [
    pytest.param(
        (backend, precision), marks=getattr(pytest.mark, backend), id=f"{backend}-{precision}"
    )
    for backend in BACKENDS
    for precision in PRECISIONS
]


@pytest.fixture(scope="package", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEBERT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="package")
def runtime_of(
    bundle_of: Callable[[str], Path],
) -> Iterator[Callable[[str, str, str], edgebert.Runtime]]:
    """Give the Runtime of a task's artifact, of two threads; nobody closes it."""
    opened: dict[tuple[str, str, str], edgebert.Runtime] = {}
    with ExitStack() as stack:

        def of(task: str, backend: str, precision: str) -> edgebert.Runtime:
            key = (task, backend, precision)
            if key not in opened:
                runtime = edgebert.Runtime(
                    bundle_of(task), backend, precision, threads=2, self_test="always"
                )
                opened[key] = stack.enter_context(runtime)
            return opened[key]

        yield of


@pytest.fixture(params=ARTIFACTS)
def artifact(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Give each backend and precision in turn; skip those that can't be made here."""
    return _made_here(*request.param)


@pytest.fixture(params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in BACKENDS])
def engine(request: pytest.FixtureRequest) -> str:
    """Give each backend in turn; skip those that can't be made here."""
    return _made_here(request.param, "")[0]


def _made_here(backend: str, precision: str) -> tuple[str, str]:
    package = missing(backend)
    if package is not None:
        pytest.skip(f"needs the package {package!r}: pip install 'edgebert[compress]'")
    return backend, precision
