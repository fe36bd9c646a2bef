"""A bundle with vectors is a model of sentence-transformers, on each of its engines."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compat.cases import CASES
from tests.compat.conftest import needs

needs("sentence_transformers")

ENGINES = {"torch": "torch", "onnx": "optimum.onnxruntime", "openvino": "optimum.intel"}
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}  # else it computes in bfloat16 on some CPUs
TASK = "feature-extraction"


@pytest.mark.parametrize("task", [TASK])
@pytest.mark.parametrize("engine", ENGINES)
def test_vectors_are_the_bundles_own(bundle, expected, engine):
    needs(ENGINES[engine])
    from sentence_transformers import SentenceTransformer

    options = {"ov_config": EXACT} if engine == "openvino" else {}
    model = SentenceTransformer(str(bundle), backend=engine, device="cpu", model_kwargs=options)
    np.testing.assert_allclose(model.encode(CASES[TASK]), expected["vectors"], atol=1e-4)
