"""Which vectors are made, and how a bundle is opened for them."""

from __future__ import annotations

from dataclasses import dataclass

from edgebert.errors import InputError
from edgebert.inputs import ROLES, check_choice
from edgebert.tasks.vectors import DTYPES

LONG = ("error", "truncate", "windows", "chunks")


@dataclass(frozen=True, kw_only=True)
class VectorSettings:
    """Which vectors are made of a text.

    Attributes:
        role: Whose prompt is put first: ``document``, ``query`` or None.
        dtype: One of `DTYPES`.
        truncate_dim: Keep so many of the leading dimensions.
        on_long: One of `LONG`; None for what the bundle says.
        token_vectors: An entry for each token instead of the text.
    """

    role: str | None = "document"
    dtype: str = "float32"
    truncate_dim: int | None = None
    on_long: str | None = None
    token_vectors: bool = False

    def __post_init__(self) -> None:
        if self.role is not None:
            check_choice("role", self.role, ROLES)
        check_choice("dtype", self.dtype, DTYPES)
        if self.on_long is not None:
            check_choice("on_long", self.on_long, LONG)
        if self.token_vectors and self.dtype == "int8":
            raise InputError(
                "dtype='int8' has its scale from vectors of texts, not of tokens; take 'float16' "
                "or 'binary' with token_vectors."
            )
        if self.token_vectors and self.on_long == "chunks":
            raise InputError(
                "on_long='chunks' has an entry for each window, and token_vectors one for each "
                "token; take 'windows', where a token's vector is of the window that suits it best."
            )


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How a bundle is opened, see `edgebert.Runtime`; what is left open is as the store was made.

    Attributes:
        backend: Name of an engine, or ``auto``.
        precision: Of the weights, or ``auto``.
        threads: That a call may use.
        max_length: Longest input in tokens.
        self_test: When known outputs are reproduced.
        fallback: Go on with another artifact when the chosen one can't be used.
    """

    backend: str = "auto"
    precision: str = "auto"
    threads: int | None = None
    max_length: int | None = None
    self_test: str = "first-load"
    fallback: bool = False
