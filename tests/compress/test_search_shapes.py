"""Which shapes there are, and what they weigh before any of them is made."""

from __future__ import annotations

import pytest
from transformers import BertForSequenceClassification, RobertaForSequenceClassification
from transformers.models.roberta import RobertaConfig

from compress.artifacts.exporters import EXPORTERS, get_exporter
from compress.artifacts.tflite_graph import lengths_for
from compress.models.architecture import Architecture
from compress.models.task_head import TaskHead
from compress.searching.config import SearchConfig
from compress.searching.estimate import Estimator, Weights
from compress.searching.shapes import Shape, Space, heads_for, make_space
from edgebert.errors import InputError
from tests.tiny import bert_config

MINILM = {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12}
WIDE = bert_config(vocab_size=9000, intermediate_size=1536, **MINILM)
SHAPES = [
    Shape(Architecture(1, 64, 2, 128), 500),
    Shape(Architecture(4, 128, 4, 512), 9000),
    Shape(Architecture(6, 96, 3, 192, embedding_size=32), 700),
    Shape(Architecture(4, 96, 3, 96, num_hidden_groups=2), 700),
    Shape(Architecture(3, 64, 2, 256, embedding_size=64, num_hidden_groups=1), 700),
]


def space_of(config=WIDE, *, task="text-classification", student="auto", vocab=(4000, 9000)):
    settings = SearchConfig(
        teacher="minilm", max_size="8MB", max_latency="3ms", task=task, student=student
    )
    return make_space(settings, config, vocab)


@pytest.mark.parametrize(
    ("width", "heads"), [(384, 12), (256, 8), (64, 2), (96, 3), (312, 8), (32, 1), (20, 1)]
)
def test_heads_are_as_wide_as_the_teachers_or_wider(width, heads):
    found = heads_for(width, MINILM)
    assert found == heads
    assert width % found == 0


def test_no_student_is_deeper_or_wider_than_its_teacher():
    space = space_of(bert_config())
    assert dict(space.dimensions) == {
        "L": (1, 2),
        "H": (16, 32),
        "I": (1, 2),
        "G": (None, 1, 2),
        "E": (None, 64, 128),
        "V": (4000, 9000),
    }


def test_numbers_that_make_no_shape_are_known():
    space = space_of()
    places = dict.fromkeys(space.dimensions, 0)  # one layer, 64 wide, as many neurons
    assert space.shape(places) == Shape(Architecture(1, 64, 2, 64), 4000)
    assert space.shape({**places, "G": 1}) is None  # one layer shares nothing
    assert space.shape({**places, "E": 1}) is None  # tables as wide as the layers
    deeper = {**places, "L": 2, "H": 2}
    assert space.shape({**deeper, "G": 2}) is None  # three layers don't make two groups
    assert space.shape({**deeper, "G": 1, "E": 1}) == Shape(
        Architecture(3, 128, 4, 128, embedding_size=64, num_hidden_groups=1), 4000
    )


def test_all_shapes_are_counted():
    dimensions = {"L": (1, 2), "H": (64,), "I": (1,), "G": (None, 1), "V": (10, 20)}
    assert Space(dimensions, MINILM).size == 6  # both depths, and two layers that share; twice


def test_a_head_of_tokens_keeps_whole_tables():
    assert "E" not in space_of(task="fill-mask").dimensions


def test_given_shapes_are_the_only_ones():
    space = space_of(student="L=3; L=2,H=128,A=4,I=512,G=1", vocab=(4000,))
    assert [str(space.shape(places)) for places in space.places()] == [
        "L=3,H=384,A=12,I=1536,V=4000",
        "L=2,H=128,A=4,I=512,G=1,V=4000",
    ]
    with pytest.raises(InputError, match="Unknown student 'L=x'"):
        space_of(student="L=3;L=x")


def test_a_shape_is_no_faster_than_one_that_computes_less():
    small, deep, wide = (
        Shape(Architecture(*numbers), 100)
        for numbers in ((2, 64, 2, 64), (3, 64, 2, 64), (1, 128, 4, 128))
    )
    assert deep.no_faster_than(small)
    assert not small.no_faster_than(deep)
    assert not wide.no_faster_than(small)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_counted_weights_are_those_of_a_real_model(shape, family):
    config = WIDE
    maker = BertForSequenceClassification
    if family == "roberta":
        numbers = {**MINILM, "intermediate_size": 1536, "max_position_embeddings": 66}
        config, maker = RobertaConfig(vocab_size=9000, **numbers), RobertaForSequenceClassification
    estimator = Estimator(maker(config))
    assert estimator.weights(shape) == Weights.of(estimator.untrained(shape))


@pytest.mark.parametrize("backend", ["onnx", pytest.param("tflite", marks=pytest.mark.slow)])
def test_an_estimated_size_is_near_that_of_a_real_artifact(backend, tmp_path):
    estimator = Estimator(BertForSequenceClassification(WIDE))
    shape = Shape(Architecture(2, 192, 6, 384), 9000)
    exporter, length = get_exporter(backend), 16
    head = TaskHead(
        task="text-classification",
        labels=("bad", "good"),
        problem_type="single_label_classification",
    )
    source, target = (tmp_path / path for path in (exporter.fp32_path, exporter.int8_path))
    source.parent.mkdir()
    exporter.export_fp32(estimator.untrained(shape), head, source, max_length=length)
    exporter.quantize(source, target, recipe=EXPORTERS[backend].default_recipes[0])
    real = {"fp32": source.stat().st_size, "int8": target.stat().st_size}
    lengths = lengths_for(length)
    found = {name: estimator.size_bytes(shape, backend, name, lengths=lengths) for name in real}
    assert found == pytest.approx(real, rel=0.03)
