"""`Runtime`'s method for ``token-classification``: text in, entities out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgebert.errors import BundleError
from edgebert.inputs import check_choice, join_words
from edgebert.tasks.core import RuntimeCore
from edgebert.tasks.tagging import AGGREGATIONS, decode_tags
from edgebert.types import Tagging


class TaggingMethods(RuntimeCore):
    """Entities of texts; `edgebert.Runtime` has them."""

    def tag(
        self,
        texts: Iterable[str | Sequence[str]],
        *,
        aggregation: str = "word",
        on_long: str | None = None,
    ) -> list[Tagging]:
        """Find the entities of each text.

        A long text is run in windows; each of its tokens is read where it has the most context, and
        then all of them together, so that an entity across a border is found once and whole.

        Args:
            texts: Strings; or lists of words, which are joined by one space: offsets are characters
                of that. Words given so are tagged as they are; those of a string are found.
            aggregation: How tokens become entities: ``none``, ``first``, ``average``, ``max`` or
                ``word``; see `edgebert.tasks.tagging.decode_tags`.
            on_long: See the class.

        Returns:
            One a text, in order.

        Raises:
            TaskError: The bundle is not for ``token-classification``.
            InputError: A text or an argument is not allowed; a text's index is named.
        """
        self._require("tag")
        check_choice("aggregation", aggregation, AGGREGATIONS)
        joined, words = join_words(texts)
        windowed = self._windowed(joined, None, on_long)
        labels = self._manifest.labels
        results = []
        for outputs, text, own in zip(
            self._token_outputs(windowed, ("logits",)), joined, words, strict=True
        ):
            logits = outputs.merged("logits")
            if logits.shape[1:] != (len(labels),):
                raise BundleError(
                    f"The model gives {list(logits.shape[1:])} logits a token, but the bundle has "
                    f"{len(labels)} labels. Export it again."
                )
            entities = decode_tags(
                logits,
                outputs.text.offsets,
                outputs.text.special_tokens_mask,
                text,
                labels=labels,
                aggregation=aggregation,
                words=own,
            )
            results.append(Tagging(entities, outputs.text.dropped_tokens))
        return results
