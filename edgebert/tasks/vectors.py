"""The forms a text's vector can take: cut, normalized, in fewer bits; and how alike two are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgebert.errors import InputError
from edgebert.formats.manifest import Manifest
from edgebert.inputs import check_choice, check_count, check_flag
from edgebert.pooling import normalize_rows
from edgebert.types import FloatArray

DTYPES = ("float32", "float16", "int8", "binary")
INT8_MAX = 127


@dataclass(frozen=True, kw_only=True)
class VectorForm:
    """How pooled vectors are finished.

    Attributes:
        normalize: Whether they get unit length.
        dim: How many of the leading dimensions are kept.
        dtype: One of `DTYPES`.
        scale: For ``int8``: what one step is worth, by dimension, float32 ``[dim]``.
    """

    normalize: bool
    dim: int
    dtype: str
    scale: FloatArray | None

    @classmethod
    def of(
        cls, manifest: Manifest, *, normalize: bool | None, truncate_dim: int | None, dtype: str
    ) -> VectorForm:
        """Fill what the caller left open from the manifest.

        Raises:
            InputError: A value is not allowed, or ``int8`` can't be had.
        """
        check_choice("dtype", dtype, DTYPES)
        width = manifest.vector_size
        dim = width if truncate_dim is None else check_count("truncate_dim", truncate_dim)
        if dim > width:
            raise InputError(f"truncate_dim is {dim}; these vectors have {width} dimensions.")
        unit = manifest.normalize if normalize is None else check_flag("normalize", normalize)
        scale = None
        if dtype == "int8":
            if manifest.int8_scale is None:
                raise InputError(
                    "dtype='int8' needs an int8_scale, which this bundle doesn't have; export it "
                    "again, or take dtype 'float16' or 'binary'."
                )
            if unit != manifest.normalize:
                raise InputError(
                    f"dtype='int8' has its scale from vectors with normalize={manifest.normalize}; "
                    "leave normalize out."
                )
            scale = np.asarray(manifest.int8_scale, dtype=np.float32)[:dim]
        return cls(normalize=unit, dim=dim, dtype=dtype, scale=scale)

    @property
    def empty(self) -> npt.NDArray[Any]:
        """No vectors, in this form: ``[0, dim]``, or ``[0, dim / 8]`` for ``binary``."""
        if self.dtype == "binary":
            return np.empty((0, -(-self.dim // 8)), dtype=np.uint8)
        return np.empty((0, self.dim), dtype=self.dtype)

    def finish(self, vectors: FloatArray) -> npt.NDArray[Any]:
        """Give pooled vectors their form.

        Args:
            vectors: float32 ``[n, hidden]``.

        Returns:
            ``[n, dim]`` float32, float16 or int8; or uint8 ``[n, dim / 8, rounded up]``, one bit a
            dimension, the first one the highest, 1 where it is above 0. An int8 times its scale is
            the full vector's value, so cut int8 vectors haven't unit length.
        """
        if self.scale is not None:
            whole = normalize_rows(vectors) if self.normalize else vectors
            steps = np.rint(whole[:, : self.dim] / self.scale)
            return np.asarray(np.clip(steps, -INT8_MAX, INT8_MAX), dtype=np.int8)
        cut = vectors[:, : self.dim]
        if self.dtype == "binary":
            return np.packbits(cut > 0, axis=1)
        return np.asarray(normalize_rows(cut) if self.normalize else cut, dtype=self.dtype)


def json_array(vector: npt.NDArray[Any]) -> str:
    """Write a vector as JSON; of a float32, as many digits as give it back exactly."""
    if vector.dtype.kind in "iu":
        return json.dumps(vector.tolist())
    return "[" + ", ".join(f"{value:.9g}" for value in vector.tolist()) + "]"


def cosine(a: FloatArray, b: FloatArray) -> FloatArray:
    """Compare each row of ``a`` with each of ``b``.

    Args:
        a: Vectors ``[n, dim]`` of any length, of any float type.
        b: Vectors ``[m, dim]``.

    Returns:
        Cosines, float32 ``[n, m]``, from -1 to 1.

    Raises:
        InputError: The vectors aren't floats, the shapes don't fit, or a vector is all zeros.
    """
    for vectors in (a, b):
        if vectors.dtype.kind != "f":
            raise InputError(
                f"Vectors of dtype {vectors.dtype} can't be compared by cosine, only floats; encode"
                " with dtype 'float32' or 'float16', or multiply int8 vectors by the int8_scale of "
                "edgebert.json first; for packed bits (binary) count the bits that differ."
            )
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise InputError(
            f"Vectors of shapes {list(a.shape)} and {list(b.shape)} can't be compared; "
            "both must be [n, dim] with the same dim."
        )
    products = normalize_rows(a.astype(np.float32)) @ normalize_rows(b.astype(np.float32)).T
    return np.asarray(np.clip(products, -1.0, 1.0), dtype=np.float32)
