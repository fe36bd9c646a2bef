"""What can't share is refused, with what can, before anything is trained."""

from __future__ import annotations

import json
import shutil

import pytest
import transformers

import compress
from compress.sharing.albert import make_plan
from edgebert.errors import InputError, ModelError
from tests.compress.share_models import share_settings
from tests.tiny import bert_config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "Give --num-hidden-groups, --embedding-size or both"),
        ({"num_hidden_groups": 1, "embedding_size": 8, "share": "ffn"}, "--share ffn takes --num-"),
        ({"share": "attention"}, "--share attention takes --num-hidden-groups"),
        ({"num_hidden_groups": 0}, "num_hidden_groups must be 1 or more, got 0"),
        ({"embedding_size": 1}, "embedding_size must be 2 or more, got 1"),
        ({"num_hidden_groups": 1, "num_train_epochs": -1}, "num_train_epochs must be 0 or more"),
        ({"embedding_size": 8, "task": "fill-mask"}, "can't be had with --task fill-mask"),
    ],
)
def test_settings_that_say_too_little_or_too_much_are_refused(lab, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        share_settings(lab, tmp_path / "out", **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_groups": 2}, "divisor of the model's 2 layers below 2, got 2; give 1"),
        ({"num_hidden_groups": 3}, "divisor of the model's 2 layers below 2, got 3; give 1"),
        ({"embedding_size": 32}, "below the model's hidden size 32, got 32"),
    ],
)
def test_what_the_model_cannot_share_is_refused_and_nothing_is_left(
    lab, tmp_path, changes, message
):
    with pytest.raises(InputError, match=message):
        compress.share(share_settings(lab, tmp_path / "out", **changes))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("groups", "allowed"), [(4, "1, 2, 3"), (5, "1, 2, 3"), (12, "1, 2, 3")])
def test_groups_that_do_not_divide_the_layers_are_refused(lab, tmp_path, groups, allowed):
    config = share_settings(lab, tmp_path / "out", num_hidden_groups=groups)
    with pytest.raises(InputError, match=f"6 layers below 6, got {groups}; give {allowed}"):
        make_plan(bert_config(num_hidden_layers=6), config)


def test_a_model_of_one_layer_has_nothing_to_share(lab, tmp_path):
    config = share_settings(lab, tmp_path / "out", num_hidden_groups=1)
    with pytest.raises(InputError, match="one layer, which has nothing to share"):
        make_plan(bert_config(num_hidden_layers=1), config)


@pytest.mark.parametrize("family", ["Electra", "DistilBert", "MobileBert"])
def test_a_family_that_computes_something_else_is_refused(lab, tmp_path, family):
    config = share_settings(lab, tmp_path / "out", num_hidden_groups=1)
    theirs = getattr(transformers, f"{family}Config")()
    with pytest.raises(ModelError, match=f"A '{family.lower()}' can't share .* bert, roberta"):
        make_plan(theirs, config)


def test_a_model_that_shares_already_is_refused(lab, tmp_path):
    config = share_settings(lab, tmp_path / "out", num_hidden_groups=1)
    with pytest.raises(ModelError, match="An ALBERT shares its weights already; give a model"):
        make_plan(transformers.AlbertConfig(), config)


def test_a_part_alone_is_shared_by_the_layers_of_a_bert_only(lab, tmp_path):
    config = share_settings(lab, tmp_path / "out", num_hidden_groups=1, share="ffn")
    with pytest.raises(ModelError, match="layers of a 'roberta' can't share their ffn alone"):
        make_plan(transformers.RobertaConfig(num_hidden_layers=2), config)


def test_a_decoder_is_refused(lab, tmp_path):
    config = share_settings(lab, tmp_path / "out", num_hidden_groups=1)
    with pytest.raises(ModelError, match="A decoder can't share"):
        make_plan(bert_config(is_decoder=True), config)


def test_a_head_of_another_activation_is_refused(lab, tmp_path):
    config = share_settings(lab, tmp_path / "out", num_hidden_groups=1, task="fill-mask")
    theirs = transformers.RobertaConfig(num_hidden_layers=2, hidden_act="relu")
    with pytest.raises(ModelError, match="activation gelu and its layers have 'relu'"):
        make_plan(theirs, config)


def test_a_model_without_a_head_is_refused(lab, tmp_path):
    config = share_settings(
        lab, tmp_path / "out", model=str(lab.encoder), num_hidden_groups=1, embedding_size=8
    )
    with pytest.raises(ModelError, match="no head for text-classification; train one"):
        compress.share(config)


def test_a_configuration_that_is_no_model_s_is_refused_in_words(lab, tmp_path):
    shutil.copytree(lab.teacher, tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text(json.dumps({"model_type": "nonsense"}))
    config = share_settings(
        lab, tmp_path / "out", model=str(tmp_path / "model"), num_hidden_groups=1
    )
    with pytest.raises(ModelError, match="nonsense"):
        compress.share(config)
