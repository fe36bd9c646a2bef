"""The body of a request, checked field by field."""

from __future__ import annotations

from typing import Any, TypeAlias

from edgebert.errors import InputError
from edgebert.formats.strict_json import parse_json
from edgebert.inputs import ON_LONG, check_texts, split_pairs
from edgebert.serving.refusals import RefusalError, wrong
from edgebert.serving.settings import ServeSettings

Body: TypeAlias = "dict[str, Any]"

_TOKEN_IDS = (
    "is token ids, but those of a client's tokenizer (as tiktoken's) are not this model's; give "
    "texts (in LangChain: check_embedding_ctx_length=False)."
)


def read_body(data: bytes, *, fields: tuple[str, ...], settings: ServeSettings) -> Body:
    """Parse a request for this server's model.

    Args:
        data: Of any bytes.
        fields: Those that may be there.
        settings: Names the model.

    Raises:
        RefusalError: It is no JSON object, has another field or no input, or names another model.
    """
    try:
        body = parse_json(data)
    except ValueError as error:
        raise RefusalError(400, f"The body is not JSON: {error}.", code="invalid_json") from error
    if not isinstance(body, dict):
        raise RefusalError(400, f"The body must be a JSON object, not {_kind(body)}.")
    for name in body:
        if name not in fields:
            allowed = ", ".join(fields)
            raise wrong(f"{name:.80}", f"is no field of this request; allowed: {allowed}.")
    model = body.get("model")
    if not isinstance(model, str):
        raise wrong("model", f"must be the string {settings.model!r}, not {_kind(model)}.")
    if model != settings.model:
        raise no_model(model, settings)
    if "input" not in body:
        raise wrong("input", "is missing; give a text or a list of texts.")
    return body


def no_model(name: str, settings: ServeSettings) -> RefusalError:
    """Make the 404 of a model that isn't served."""
    return RefusalError(
        404,
        f"The model {name[:200]!r} doesn't exist here; this server has {settings.model!r}.",
        param="model",
        code="model_not_found",
    )


def texts_of(body: Body, settings: ServeSettings) -> list[str]:
    """Give the texts of ``input``, a string or a list of strings.

    Raises:
        RefusalError: It is something else, has no text, or too many.
    """
    items = _items(body["input"], settings)
    if any(_is_ids(item) for item in items) or _is_ids(items):
        raise wrong("input", _TOKEN_IDS)
    try:
        return check_texts(items, name="input")
    except InputError as error:
        raise RefusalError(400, str(error), param="input", code="invalid_value") from error


def pairs_of(body: Body, settings: ServeSettings) -> list[Any]:
    """Give ``input`` where a list of two strings is a pair: strings, or tuples of two.

    Raises:
        RefusalError: As `texts_of`, or a list hasn't two strings.
    """
    items = _items(body["input"], settings)
    try:
        firsts, seconds = split_pairs(items, name="input")
    except InputError as error:
        raise RefusalError(400, str(error), param="input", code="invalid_value") from error
    return list(firsts) if seconds is None else list(zip(firsts, seconds, strict=True))


def choice_of(body: Body, name: str, allowed: tuple[str, ...], default: str | None) -> str | None:
    """Give a field that is one of some words; null is as if it weren't there."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, str) or value not in allowed:
        raise wrong(name, f"is {value!r:.80}; allowed: {', '.join(map(repr, allowed))}.")
    return value


def count_of(body: Body, name: str, *, most: int | None = None) -> int | None:
    """Give a field that is a whole number from 1; null is as if it weren't there."""
    value = body.get(name)
    if value is None:
        return None
    span = "1 or more" if most is None else f"from 1 to {most}"
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or value < 1
        or value > (most or value)
    ):
        raise wrong(name, f"is {value!r:.80}; it must be a whole number, {span}.")
    return value


def role_of(body: Body) -> str | None:
    """Give whose prompt is put first: ``role``, or ``input_type`` as other servers call it."""
    roles = ("query", "document")
    role = choice_of(body, "role", roles, None)
    other = choice_of(body, "input_type", roles, None)
    if role and other and role != other:
        raise wrong("input_type", f"is {other!r}, but role is {role!r}; give one of them.")
    return role or other


def on_long_of(body: Body, settings: ServeSettings) -> str | None:
    """Give what becomes of a text too long; None for what the bundle says."""
    return choice_of(body, "on_long", ON_LONG, settings.on_long)


def _items(value: object, settings: ServeSettings) -> list[Any]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        raise wrong("input", f"must be a text or a list of texts, not {_kind(value)}.")
    if not items:
        raise wrong("input", "is an empty list; give one text or more.")
    if len(items) > settings.max_inputs:
        raise wrong(
            "input",
            f"has {len(items)} items; this server takes {settings.max_inputs} a request "
            "(--max-inputs). Send them in several requests.",
        )
    return items


def _is_ids(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(type(one) is int for one in value)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")
