"""Check texts, roles and lengths at the border, so that what follows can trust them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from numbers import Integral
from typing import Any

import numpy as np

from edgebert.errors import InputError

ROLES = ("query", "document")
SELF_TESTS = ("first-load", "always", "off")
ON_LONG = ("error", "truncate", "window")


def check_texts(texts: Iterable[str], *, name: str = "texts") -> list[str]:
    """Give ``texts`` as a list of strings that can be tokenized.

    Raises:
        InputError: A bare string, something that can't be iterated or has no order, an item that is
            no string, or a string with half a surrogate pair (it has no UTF-8 form); the index is
            named.
    """
    return list(iterate_texts(texts, name=name))


def iterate_texts(texts: Iterable[str], *, name: str = "texts") -> Iterator[str]:
    """Check like `check_texts`, each text when it is asked for; the container at once."""
    items = _iterable(texts, name)
    return (_checked_text(text, f"{name}[{i}]") for i, text in enumerate(items))


def split_pairs(
    items: Iterable[Any], *, name: str = "texts", of: str = "strings"
) -> tuple[list[str], list[str] | None]:
    """Take texts, or pairs of texts, apart.

    Args:
        items: Strings, or tuples or lists of two strings; not both kinds.
        name: What an error calls them.
        of: What an error says that the list must hold.

    Returns:
        The texts and None, or the first and the second texts.

    Raises:
        InputError: As `check_texts`, or the kinds are mixed, or a tuple hasn't two texts.
    """
    listed = list(_iterable(items, name, of))
    if not any(isinstance(item, tuple | list) for item in listed):
        return check_texts(listed, name=name), None
    firsts, seconds = [], []
    for i, item in enumerate(listed):
        if not isinstance(item, tuple | list):
            raise InputError(
                f"{name}[{i}] is {_kind(item)}, but others are pairs; "
                "give only texts, or only tuples of two texts."
            )
        if len(item) != 2:
            raise InputError(f"{name}[{i}] has {len(item)} texts; give tuples of two.")
        firsts.append(_checked_text(item[0], f"{name}[{i}][0]"))
        seconds.append(_checked_text(item[1], f"{name}[{i}][1]"))
    return firsts, seconds


def join_words(
    items: Iterable[Any],
) -> tuple[list[str], list[list[tuple[int, int]] | None]]:
    """Take texts that are strings, or lists of words, as strings.

    Args:
        items: Strings, or lists or tuples of words; both kinds may be mixed.

    Returns:
        The texts, words joined by one space; and for each where its words are in it, as start and
        end, or None for a string.

    Raises:
        InputError: As `check_texts`.
    """
    texts: list[str] = []
    spans: list[list[tuple[int, int]] | None] = []
    for i, item in enumerate(_iterable(items, "texts")):
        if not isinstance(item, list | tuple):
            texts.append(_checked_text(item, f"texts[{i}]"))
            spans.append(None)
            continue
        words = check_texts(item, name=f"texts[{i}]")
        ends = list(accumulate(len(word) + 1 for word in words))  # the space counted
        texts.append(" ".join(words))
        pairs = zip(words, ends, strict=True)
        spans.append([(end - 1 - len(word), end - 1) for word, end in pairs])
    return texts, spans


def split_choices(items: Iterable[Any]) -> list[tuple[str, list[str]]]:
    """Check prompts with their choices: tuples or lists of a string and a list of strings.

    Raises:
        InputError: One is something else, or has no choice; its index is named.
    """
    name = "prompt_choices_pairs"
    questions = []
    for i, item in enumerate(_iterable(items, name, "tuples (prompt, [choice, …])")):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise InputError(
                f"{name}[{i}] is {_kind(item)}; give tuples (prompt, [choice, …]), each with a "
                "string and a list of strings."
            )
        prompt = _checked_text(item[0], f"{name}[{i}][0]")
        choices = check_texts(item[1], name=f"{name}[{i}][1]")
        if not choices:
            raise InputError(f"{name}[{i}] has no choice; give one or more.")
        questions.append((prompt, choices))
    return questions


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise an `InputError` that names the argument, its value and what is allowed."""
    if value not in allowed:
        raise InputError(f"{name} is {value!r}; allowed: {', '.join(map(repr, allowed))}.")


def check_flag(name: str, value: object) -> bool:
    """Give ``value`` when it is True or False; else raise an `InputError`."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} is {value!r}; it must be True or False.")
    return bool(value)


def check_count(name: str, value: object, *, most: int | None = None) -> int:
    """Give ``value`` when it is an integer from 1 to ``most``; else raise an `InputError`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)  # numpy's are, too
    if not whole or value < 1 or (most is not None and value > most):  # type: ignore[operator]
        span = "1 or more" if most is None else f"from 1 to {most}"
        raise InputError(f"{name} is {value!r}; it must be a whole number, {span}.")
    return int(value)  # type: ignore[call-overload,no-any-return]


def _iterable(texts: Iterable[Any], name: str, of: str = "strings") -> Iterable[Any]:
    if isinstance(texts, str):
        remedy = "wrap it in a list: [text]" if of == "strings" else f"give a list of {of}"
        raise InputError(f"{name} is one string; {remedy}.")
    # a set has no order for the results; of a mapping or a table we'd read the names of columns
    unfit = isinstance(texts, bytes | bytearray | Mapping | set | frozenset)
    try:
        if not unfit and getattr(texts, "ndim", 1) == 1:
            return iter(texts)
    except TypeError:  # it can't be iterated
        pass
    raise InputError(f"{name} is {_kind(texts)}; give a list of {of}.")


def _checked_text(text: object, name: str) -> str:
    if not isinstance(text, str):
        raise InputError(f"{name} is {_kind(text)}; every text must be a string.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{name} has half a surrogate pair at character {error.start}, so it is no valid "
            "text; clean it with text.encode('utf-8', 'replace').decode()."
        ) from error
    return str(text)


def _kind(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
