"""A weight's part, by the names that the families give their modules; and engines' versions."""

from __future__ import annotations

import pytest

from compress.artifacts.quantizer import oldest_for_all, part_name


@pytest.mark.parametrize(
    ("node", "part"),
    [
        ("/model/bert/encoder/layer.3/attention/self/query/MatMul", "layer.3/attention"),
        ("/model/bert/encoder/layer.3/attention/output/dense/MatMul", "layer.3/attention"),
        ("/model/bert/encoder/layer.3/intermediate/dense/MatMul", "layer.3/ffn-up"),
        ("/model/bert/encoder/layer.3/output/dense/MatMul", "layer.3/ffn-down"),
        ("/model/distilbert/transformer/layer.0/attention/q_lin/MatMul", "layer.0/attention"),
        ("/model/distilbert/transformer/layer.0/ffn/lin1/MatMul", "layer.0/ffn-up"),
        ("/model/distilbert/transformer/layer.0/ffn/lin2/MatMul", "layer.0/ffn-down"),
        ("/model/bert/embeddings/word_embeddings/Gather", "embeddings"),
        ("/model/classifier/Gemm", "head"),
    ],
)
def test_a_node_belongs_to_a_part_of_its_layer(node, part):
    assert part_name(node) == part


@pytest.mark.parametrize(
    ("backend", "engines", "oldest"),
    [
        ("onnx", ("onnxruntime 1.15", "onnxruntime 1.9"), "onnxruntime 1.15"),
        ("onnx", ("onnxruntime 1.15", "onnxruntime 1.22"), "onnxruntime 1.22"),
        ("tflite", ("tflite-runtime 2.14", "ai-edge-litert 2.1"), "ai-edge-litert 2.1"),
        ("tflite", ("ai-edge-litert 2.1", "tflite-runtime 2.14"), "ai-edge-litert 2.1"),
        ("tflite", ("tflite-runtime 2.14", "tflite-runtime 2.14"), "tflite-runtime 2.14"),
    ],
)
def test_an_engine_must_meet_all_needs(backend, engines, oldest):
    assert oldest_for_all(backend, *engines) == oldest
