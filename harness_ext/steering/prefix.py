"""Beginnings that several token rows share, run once.

Under causal attention nothing after a token changes what lies before it, so the keys and values of
a common beginning serve every continuation. Rows of one batch are equally long here, so that no
padding, and with it no mask, comes in.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import torch
from transformers import Cache, DynamicCache

from harness_ext.steering.anatomy import Anatomy

WORTH_A_FORWARD = 64
"""Tokens that a separate forward has to save: each one reads all weights once."""


def run_prefix(anatomy: Anatomy, rows: Sequence[Sequence[int]]) -> Cache:
    """Keys and values, at every layer, of equally long token rows (one cache row for each).

    What all rows begin with runs as one row, and so do equal rows. Empty rows give an empty cache.
    """
    cache = DynamicCache(config=anatomy.model.config)
    each = list(dict.fromkeys(tuple(row) for row in rows))
    common = common_beginning(each)
    if (len(each) - 1) * len(common) < WORTH_A_FORWARD:
        common = ()
    if common:
        _extend(anatomy, cache, [common])
        cache.batch_repeat_interleave(len(each))
    if len(common) < len(each[0]):
        _extend(anatomy, cache, [row[len(common) :] for row in each])
    if each[0]:
        cache.batch_select_indices(torch.tensor([each.index(tuple(row)) for row in rows]))
    return cache


def common_beginning(rows: Sequence[Sequence[int]]) -> Sequence[int]:
    """The longest token row that all of `rows` begin with."""
    same = takewhile(lambda column: len(set(column)) == 1, zip(*rows, strict=False))
    return rows[0][: sum(1 for _ in same)]


def _extend(anatomy: Anatomy, cache: Cache, rows: Sequence[Sequence[int]]) -> None:
    ids = torch.tensor(rows, device=anatomy.device)
    with torch.no_grad():
        anatomy.model(
            input_ids=ids, use_cache=True, logits_to_keep=1, **{anatomy.cache_argument: cache}
        )
