"""Shortcuts that are tried on a model once, against the plain way, before it takes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, MutableMapping
from typing import Any

log = logging.getLogger(__name__)

Flaws = MutableMapping[Any, dict[Hashable, str | None]]
"""By model, and by the kind of use: why the shortcut cannot be trusted, or None where it can."""


def flaw(
    known: Flaws, model: Any, kind: Hashable, check: Callable[[], str | None], instead: str
) -> str | None:
    """What is wrong with a shortcut for this model and kind of use, or None.

    check: runs both ways and says what differs; failing is a difference too. It is called once, and
    what it finds is kept in `known` and logged with `instead`, what is done without the shortcut.
    """
    found = known.setdefault(model, {})
    if kind not in found:
        try:
            found[kind] = check()
        except (RuntimeError, ValueError, TypeError, AttributeError, LookupError) as error:
            found[kind] = f"{type(error).__name__}: {error}"
        if found[kind] is not None:
            log.warning("%s: %s (%s).", type(model).__name__, instead, found[kind])
    return found[kind]
