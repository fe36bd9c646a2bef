"""A BERT's weights in an ALBERT, the one form that transformers opens with each of them once.

Post-norm layers, embeddings, pooler and heads of both families compute the same; an ALBERT has one
matrix more behind its embeddings (Lan et al., 2020), the identity where these stay as wide.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from compress.models.blocks import SHARING, encoder_blocks, model_type
from compress.sharing.factorise import Embeddings, factorise_embeddings
from edgebert.errors import InputError, ModelError
from edgebert.formats.positions import max_positions

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

    from compress.sharing.config import ShareConfig, Shared

Start = Literal["mean", "first"]

# The class that opens a family's tokenizer, for a configuration of another family to name.
TOKENIZERS = {
    "bert": "BertTokenizer",
    "roberta": "RobertaTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "camembert": "CamembertTokenizer",
}
# Modules behind the encoder: ALBERT's name, and the names that the families have for it.
_HEADS = {
    "pooler": ("pooler.dense",),  # of an encoder without a head
    "albert.pooler": ("bert.pooler.dense", "roberta.pooler.dense", "classifier.dense"),
    "classifier": ("classifier.out_proj", "classifier"),
    "qa_outputs": ("qa_outputs",),
    "predictions.dense": ("cls.predictions.transform.dense", "lm_head.dense"),
    "predictions.LayerNorm": ("cls.predictions.transform.LayerNorm", "lm_head.layer_norm"),
    "predictions.decoder": ("cls.predictions.decoder", "lm_head.decoder"),
}
_SAME = (  # settings that mean the same in both families
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "type_vocab_size",
    "initializer_range",
    "layer_norm_eps",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "tie_word_embeddings",
    "id2label",
    "label2id",
    "problem_type",
    "chunk_size_feed_forward",
)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a model is going to share.

    Attributes:
        groups: Sets of weights; as many as layers where each keeps its own.
        embedding_size: Width of the tables; the hidden size where they stay as they are.
        share: What the layers of a group share; a part alone is `compress.sharing.partly`'s.
    """

    groups: int
    embedding_size: int
    share: Shared = "all"


def make_plan(theirs: PreTrainedConfig, config: ShareConfig) -> Plan:
    """Say what becomes of a model, from its configuration alone.

    Args:
        theirs: Of the model that was given.
        config: What is asked.

    Raises:
        ModelError: Its family has another form than ALBERT's, or it has no layers.
        InputError: So many groups, or this width, can't be had.
    """
    _require_family(theirs, config)
    settings: Any = theirs
    layers, width = int(settings.num_hidden_layers), int(settings.hidden_size)
    if not layers:
        raise ModelError(
            "A static model has no layers to share and no ALBERT's form; make a narrower one with "
            "compress.distill --student static-64d."
        )
    groups = layers if config.num_hidden_groups is None else config.num_hidden_groups
    divisors = [number for number in range(1, layers) if layers % number == 0]
    if config.num_hidden_groups is not None and groups not in divisors:
        allowed = ", ".join(map(str, divisors))
        raise InputError(
            f"num_hidden_groups must be a divisor of the model's {layers} layers below {layers}, "
            f"got {groups}; give {allowed}."
            if divisors
            else "The model has one layer, which has nothing to share; give --embedding-size alone."
        )
    size = width if config.embedding_size is None else config.embedding_size
    if config.embedding_size is not None and size >= width:
        raise InputError(
            f"embedding_size must be below the model's hidden size {width}, got {size}; with its "
            "matrix behind them, such tables would be larger than they are."
        )
    return Plan(groups=groups, embedding_size=size, share=config.share)


def _require_family(theirs: PreTrainedConfig, config: ShareConfig) -> None:
    settings: Any = theirs
    family = str(settings.model_type)
    if family in SHARING:
        name = "An ALBERT" if family == "albert" else f"A {family!r}"
        raise ModelError(
            f"{name} shares its weights already; give a model of {', '.join(TOKENIZERS)}."
        )
    if family not in TOKENIZERS:
        raise ModelError(
            f"A {family!r} can't share its weights here: as an ALBERT, the form that holds them "
            f"once, it would compute something else. Families that can: {', '.join(TOKENIZERS)}; "
            "distill another into a smaller student instead."
        )
    if config.share != "all" and family != "bert":
        raise ModelError(
            f"The layers of a {family!r} can't share their {config.share} alone, only those of a "
            "BERT can; take --share all."
        )
    if getattr(settings, "is_decoder", False):
        raise ModelError("A decoder can't share its weights here; give an encoder.")
    if config.task == "fill-mask" and family != "bert" and settings.hidden_act != "gelu":
        raise ModelError(
            f"The head of this {family!r} has the activation gelu and its layers have "
            f"{settings.hidden_act!r}; an ALBERT has one for both. Take --task feature-extraction."
        )


@torch.no_grad()
def to_albert(
    model: PreTrainedModel, plan: Plan, *, start: Start = "mean", counts: Tensor | None = None
) -> PreTrainedModel:
    """Make an ALBERT of a model's weights; with as many groups as layers it computes the same.

    Args:
        model: Of a family of `TOKENIZERS`, with its head; it is left as it was.
        plan: Of `make_plan`.
        start: What a group begins with: the mean of its layers' weights, or its first layer's.
        counts: How often each token occurs in the texts, ``[V]``, for narrower tables; default
            all alike.

    Returns:
        Its twin, in eval mode, float32, on its device.

    Raises:
        ModelError: Its head has parts that an ALBERT's hasn't.
    """
    albert = _albert_like(model, plan)
    filled = _fill_layers(albert, model, start)
    filled |= _fill_embeddings(albert, model, counts)
    modules = dict(model.named_modules())
    for name, module in albert.named_modules():
        sources = [modules.get(source) for source in _HEADS.get(name, ())]
        origin = next((one for one in sources if isinstance(one, type(module))), None)
        if origin is not None:
            module.load_state_dict(origin.state_dict())
            filled |= {id(parameter) for parameter in module.parameters()}
    if hasattr(albert, "predictions"):
        albert.predictions.bias = albert.predictions.decoder.bias  # one parameter of two names
    left = [name for name, parameter in albert.named_parameters() if id(parameter) not in filled]
    if left:
        raise ModelError(
            f"{type(model).__name__} has nothing for {', '.join(left[:3])} of an ALBERT; give a "
            "model with a head of transformers' own."
        )
    return albert.to(model.device).eval()  # type: ignore[no-any-return]


def _albert_like(model: PreTrainedModel, plan: Plan) -> Any:
    """Make an ALBERT of a model's class and sizes, with random weights."""
    import transformers

    old: Any = model.config
    config = transformers.AlbertConfig(
        **{name: getattr(old, name) for name in _SAME if hasattr(old, name)},
        embedding_size=plan.embedding_size,
        num_hidden_groups=plan.groups,
        inner_group_num=1,
        max_position_embeddings=max_positions(old.to_dict()) or old.max_position_embeddings,
        classifier_dropout_prob=_first(
            getattr(old, "classifier_dropout", None), old.hidden_dropout_prob
        ),
    )
    config.tokenizer_class = _first(
        getattr(old, "tokenizer_class", None), TOKENIZERS[model_type(model)]
    )
    head = re.sub(r"^.*?(?=Model$|For[A-Z])", "", type(model).__name__)
    maker: Any = getattr(transformers, f"Albert{head}", None)
    if maker is None:
        raise ModelError(
            f"transformers has no Albert{head}, so {type(model).__name__} can't become one."
        )
    pooler = {} if head != "Model" else {"add_pooling_layer": model.pooler is not None}
    with torch.random.fork_rng(devices=[]):  # every weight is replaced
        return maker(config, **pooler)


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)


def _fill_layers(albert: nn.Module, model: nn.Module, start: Start) -> set[int]:
    """Give each group the weights of its layers; name what is filled."""
    shared, blocks = encoder_blocks(albert), encoder_blocks(model)
    count = len(blocks) // len(shared)  # layer i is of group i // count, as ALBERT counts
    filled: set[int] = set()
    for group, target in enumerate(shared):
        members = blocks[group * count : (group + 1) * count]
        for name, module in vars(target).items():
            parts = [dict(getattr(member, name).named_parameters()) for member in members]
            for key, parameter in module.named_parameters():
                values = torch.stack([part[key].float().cpu() for part in parts])
                parameter.copy_(values.mean(dim=0) if start == "mean" else values[0])
                filled.add(id(parameter))
    return filled


def _fill_embeddings(albert: Any, model: PreTrainedModel, counts: Tensor | None) -> set[int]:
    """Give the tables, their norm and the matrix behind them; name what is filled."""
    theirs: Any = model.base_model.embeddings
    ours = albert.base_model.embeddings
    used = ours.position_embeddings.num_embeddings  # RoBERTa's first rows are no position's
    whole = Embeddings(
        words=theirs.word_embeddings.weight,
        positions=theirs.position_embeddings.weight[-used:],
        token_types=theirs.token_type_embeddings.weight,
        norm_weight=theirs.LayerNorm.weight,
        norm_bias=theirs.LayerNorm.bias,
        eps=theirs.LayerNorm.eps,
    )
    found = factorise_embeddings(whole, int(albert.config.embedding_size), counts=counts)
    mapping = albert.base_model.encoder.embedding_hidden_mapping_in
    pairs = (
        (ours.word_embeddings.weight, found.words),
        (ours.position_embeddings.weight, found.positions),
        (ours.token_type_embeddings.weight, found.token_types),
        (ours.LayerNorm.weight, found.norm_weight),
        (ours.LayerNorm.bias, found.norm_bias),
        (mapping.weight, found.mapping),
        (mapping.bias, found.mapping_bias),
    )
    for parameter, values in pairs:
        parameter.copy_(values)
    return {id(parameter) for parameter, _ in pairs}
