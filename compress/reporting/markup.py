"""HTML and SVG as strings that are escaped unless they were made here."""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def el(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """Make an element; a child that is no `Markup` is escaped, so labels can't inject anything.

    Args:
        name: Of the element.
        children: Text or `Markup`.
        attributes: ``cls`` stands for ``class``; underscores become hyphens; None is left out.
    """
    pairs = "".join(
        f' {_attribute(key)}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{pairs}>{join(*children)}</{name}>")


def join(*children: str) -> Markup:
    """Put children one after the other, escaping those that are no `Markup`."""
    return Markup("".join(c if isinstance(c, Markup) else escape(c, quote=False) for c in children))


def _attribute(name: str) -> str:
    return "class" if name == "cls" else name.rstrip("_").replace("_", "-")


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
