"""What a bundle's task is asked for over HTTP: a request's body in, the response's out."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from edgebert.errors import TaskError
from edgebert.serving.batcher import AbandonedError, Call
from edgebert.serving.fields import (
    Body,
    choice_of,
    count_of,
    on_long_of,
    pairs_of,
    read_body,
    role_of,
    texts_of,
)
from edgebert.serving.metrics import Metrics
from edgebert.serving.runtime import ServedRuntime
from edgebert.serving.settings import ServeSettings
from edgebert.tasks.tagging import AGGREGATIONS
from edgebert.tasks.vectors import json_array

Items: TypeAlias = "list[str]"  # JSON objects without what all of them have
Ask: TypeAlias = Callable[[ServedRuntime, Body, ServeSettings], Items]

_COMMON = ("model", "input", "on_long", "user")


@dataclass(frozen=True)
class Endpoint:
    """A path that takes POST.

    Attributes:
        path: Below the server's root.
        kind: What an item of the answer calls itself.
        fields: Of the request, beside those of all.
        ask: Checks the body and calls the Runtime.
    """

    path: str
    kind: str
    fields: tuple[str, ...]
    ask: Ask

    def reply(
        self,
        runtime: ServedRuntime,
        data: bytes,
        settings: ServeSettings,
        metrics: Metrics,
        call: Call,
    ) -> bytes:
        """Answer a request, in a thread that may wait.

        Raises:
            RefusalError: The body isn't allowed.
            EdgeBertError: The Runtime can't answer it.
            AbandonedError: Nobody waits for it.
        """
        if call.gone:
            raise AbandonedError
        body = read_body(data, fields=(*_COMMON, *self.fields), settings=settings)
        with runtime.serving(call):
            found = self.ask(runtime, body, settings)
        dropped = call.dropped_of(len(found))
        metrics.texts.add(len(found))
        metrics.tokens.add(call.tokens)
        metrics.dropped.add(sum(dropped))
        items = [
            f'{{"object":"{self.kind}","index":{i},{item},"dropped_tokens":{cut}}}'
            for i, (item, cut) in enumerate(zip(found, dropped, strict=True))
        ]
        usage = {
            "prompt_tokens": call.tokens,
            "total_tokens": call.tokens,
            "dropped_tokens": sum(dropped),
        }
        text = (
            f'{{"object":"list","data":[{",".join(items)}],'
            f'"model":{json.dumps(settings.model)},"usage":{json.dumps(usage)}}}'
        )
        return text.encode("utf-8")


def endpoint_of(task: str) -> Endpoint:
    """Give the endpoint of a bundle's task.

    Raises:
        TaskError: It has none.
    """
    if task not in ENDPOINTS:
        raise TaskError(f"A {task} bundle can't be served; allowed: {', '.join(ENDPOINTS)}.")
    return ENDPOINTS[task]


def _embed(runtime: ServedRuntime, body: Body, settings: ServeSettings) -> Items:
    packed = choice_of(body, "encoding_format", ("float", "base64"), "float") == "base64"
    dim = count_of(body, "dimensions", most=runtime.vector_size)
    texts = texts_of(body, settings)
    vectors = runtime.encode(
        texts, role=role_of(body), truncate_dim=dim, on_long=on_long_of(body, settings)
    )
    if not packed:
        return [f'"embedding":{json_array(vector)}' for vector in vectors]
    rows = np.ascontiguousarray(vectors, dtype="<f4")  # as OpenAI's client unpacks it
    return [f'"embedding":"{base64.b64encode(row.tobytes()).decode("ascii")}"' for row in rows]


def _classify(runtime: ServedRuntime, body: Body, settings: ServeSettings) -> Items:
    top_k, on_long = count_of(body, "top_k"), on_long_of(body, settings)
    found = runtime.classify(pairs_of(body, settings), top_k=top_k, on_long=on_long)
    return [
        _members(label=one.label, score=one.score, labels=one.labels, scores=one.scores)
        for one in found
    ]


def _score(runtime: ServedRuntime, body: Body, settings: ServeSettings) -> Items:
    found = runtime.score(pairs_of(body, settings), on_long=on_long_of(body, settings))
    return [_members(score=float(one)) for one in found]


def _tag(runtime: ServedRuntime, body: Body, settings: ServeSettings) -> Items:
    aggregation = choice_of(body, "aggregation", AGGREGATIONS, "word") or "word"
    found = runtime.tag(
        texts_of(body, settings), aggregation=aggregation, on_long=on_long_of(body, settings)
    )
    return [_members(entities=[asdict(entity) for entity in one.entities]) for one in found]


def _answer(runtime: ServedRuntime, body: Body, settings: ServeSettings) -> Items:
    top_k = count_of(body, "top_k") or 1
    found = runtime.answer(
        pairs_of(body, settings), top_k=top_k, on_long=on_long_of(body, settings)
    )
    return [_members(answers=[asdict(answer) for answer in answers]) for answers in found]


def _members(**values: Any) -> str:
    """Give members of a JSON object, without its braces."""
    return json.dumps(values, ensure_ascii=False)[1:-1]


ENDPOINTS: dict[str, Endpoint] = {
    "feature-extraction": Endpoint(
        "/v1/embeddings",
        "embedding",
        ("encoding_format", "dimensions", "role", "input_type"),
        _embed,
    ),
    "text-classification": Endpoint("/v1/classify", "classification", ("top_k",), _classify),
    "regression": Endpoint("/v1/classify", "score", (), _score),
    "token-classification": Endpoint("/v1/tag", "tagging", ("aggregation",), _tag),
    "question-answering": Endpoint("/v1/answer", "answers", ("top_k",), _answer),
}
