"""A BERT whose layers share their attention, or their feed-forward part, and keep the other.

transformers has no such family, so it is one of ours: with this module imported, its ``Auto…``
classes open a checkpoint of it; without, they refuse it by its ``model_type``. As in ALBERT (Lan et
al., 2020), neighbouring layers are a group, and a part's LayerNorm is shared with it. The part is
one module in all layers of a group, so it is saved, trained, exported and quantized once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import transformers
from transformers import BertConfig, PreTrainedModel
from transformers.models.bert.modeling_bert import BertPreTrainedModel

from compress.models.architecture import SHARED_BERT

if TYPE_CHECKING:
    from transformers import PreTrainedConfig  # transformers 4 spells it otherwise

# What makes a part: names of a layer's modules.
MODULES: dict[str, tuple[str, ...]] = {
    "attention": ("attention",),
    "ffn": ("intermediate", "output"),
}


class SharedBertConfig(BertConfig):  # type: ignore[no-untyped-call]
    """A BERT's settings, and what its layers share.

    Attributes:
        shared_part: A key of `MODULES`.
        num_hidden_groups: Sets of weights of that part; a divisor of the number of layers.
    """

    model_type = SHARED_BERT

    shared_part: str = "ffn"
    num_hidden_groups: int = 1

    def __post_init__(self, **kwargs: Any) -> None:
        """Make sure that the layers can share so."""
        super().__post_init__(**kwargs)  # type: ignore[no-untyped-call]
        if self.shared_part not in MODULES:
            raise ValueError(f"shared_part must be attention or ffn, got {self.shared_part!r:.100}")
        groups = self.num_hidden_groups
        if groups < 1 or self.num_hidden_layers % groups:
            raise ValueError(
                f"num_hidden_groups must be a divisor of {self.num_hidden_layers} layers, "
                f"got {groups}"
            )


class SharedBertPreTrainedModel(BertPreTrainedModel):  # type: ignore[no-untyped-call]
    """What makes any BERT one that shares: put in front of transformers' own class."""

    config_class = SharedBertConfig
    config: SharedBertConfig

    def post_init(self) -> None:
        """Let the layers share, and tell transformers which names are of one weight."""
        encoder: Any = self.base_model.encoder
        layers = encoder.layer
        size = max(1, len(layers) // self.config.num_hidden_groups)
        parts = MODULES[self.config.shared_part]
        base = "" if self.base_model is self else f"{self.base_model_prefix}."
        self._shared: dict[str, str] = {}
        for number, layer in enumerate(layers):
            first = number - number % size
            for part in parts if number != first else ():
                module = getattr(layers[first], part)
                setattr(layer, part, module)
                for name, _ in module.named_parameters():
                    at = f"{base}encoder.layer.{{}}.{part}.{name}"
                    self._shared[at.format(number)] = at.format(first)
        self._tied_weights_keys = {**(self._tied_weights_keys or {}), **self._shared}
        super().post_init()  # type: ignore[no-untyped-call]

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """Give the names of weights by names that are tied to them, whatever is tied besides."""
        found: dict[str, str] = super().get_expanded_tied_weights_keys(all_submodels)
        return {**found, **self._shared}


def _model(head: str) -> type[SharedBertPreTrainedModel]:
    """Make the class that shares of transformers' own with the same head."""
    bases = (SharedBertPreTrainedModel, getattr(transformers, f"Bert{head}"))
    made: Any = type(f"SharedBert{head}", bases, {"__module__": __name__})
    return made  # type: ignore[no-any-return]


_HEADS = {
    "AutoModel": "Model",
    "AutoModelForSequenceClassification": "ForSequenceClassification",
    "AutoModelForTokenClassification": "ForTokenClassification",
    "AutoModelForQuestionAnswering": "ForQuestionAnswering",
    "AutoModelForMultipleChoice": "ForMultipleChoice",
    "AutoModelForMaskedLM": "ForMaskedLM",
}
MODELS = {f"SharedBert{head}": _model(head) for head in _HEADS.values()}
"""By their names, which ``config.json`` holds."""

transformers.AutoConfig.register(SHARED_BERT, SharedBertConfig)
for _auto, _head in _HEADS.items():
    getattr(transformers, _auto).register(SharedBertConfig, MODELS[f"SharedBert{_head}"])


def unshared_class(maker: type[PreTrainedModel]) -> type[PreTrainedModel]:
    """Give transformers' own class for one of `MODELS`; any other as it is."""
    found: type[PreTrainedModel] = maker.__bases__[1] if maker in MODELS.values() else maker
    return found


def unshared_config(config: PreTrainedConfig) -> BertConfig:
    """Give the settings of a BERT of the same sizes whose layers share nothing.

    Args:
        config: A `SharedBertConfig`.
    """
    ours = ("model_type", "architectures", "shared_part", "num_hidden_groups")
    settings = {name: value for name, value in config.to_dict().items() if name not in ours}
    found: BertConfig = BertConfig.from_dict(settings)
    return found
