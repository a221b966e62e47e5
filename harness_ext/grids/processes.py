"""Keeps the processes of `accelerate launch` together where a cell fails in some of them.

lm-eval's processes wait for each other a few times in an evaluation. One that has failed would be
waited for without end, so before each such meeting they tell each other whether all goes well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch.distributed
from lm_eval.models.huggingface import HFLM

_MEETINGS = ("all_gather", "barrier", "gather_object")


class FailedElsewhereError(Exception):
    """Another process could not evaluate the cell; the message is what it said of its error."""


def meet(failed: str | None = None) -> None:
    """Hear from all processes, told by each what failed in it.

    A process that failed has to meet the others once more, and then be done with the cell, as these
    are: they raise :class:`FailedElsewhereError`, with what the first of them says.
    """
    if not torch.distributed.is_initialized():
        return
    told: list[str | None] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(told, failed)
    elsewhere = [text for text in told if text is not None]
    if failed is None and elsewhere:
        raise FailedElsewhereError(elsewhere[0])


def meet_first(lm: HFLM) -> None:
    """Let the model's processes `meet` before each meeting that lm-eval has them hold."""
    for name in _MEETINGS:
        setattr(lm, name, partial(_after_meeting, getattr(lm, name)))


def _after_meeting(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    meet()
    return function(*args, **kwargs)
