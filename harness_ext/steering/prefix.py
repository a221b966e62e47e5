"""Prompts split before a position whose later tokens are run many times: the shared part runs once.

Under causal attention nothing after a token changes what lies before it, so the keys and values of
a common beginning serve every continuation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache

from harness_ext.steering.anatomy import Anatomy
from harness_ext.steering.batches import pad_left


@dataclass(frozen=True)
class Prefix:
    """The cached beginning of a batch of prompts, padded on the left.

    cache: keys and values of all layers. mask: [rows, width], 1 on real tokens.
    lengths: [rows], real tokens per row.
    """

    cache: Cache
    mask: Tensor
    lengths: Tensor

    def continuation(self, anatomy: Anatomy, ids: Tensor, copies: int = 1) -> dict[str, Any]:
        """Keyword arguments for a forward of `ids` [rows · copies, m] right after the prefix.

        With `copies` every row of the prefix is followed by that many continuations in turn; the
        cache is expanded in place and can be used once.
        """
        if copies > 1:
            self.cache.batch_repeat_interleave(copies)
        mask = self.mask.repeat_interleave(copies, dim=0)
        steps = torch.arange(ids.shape[1], device=ids.device)
        positions = self.lengths.repeat_interleave(copies).unsqueeze(1) + steps
        return {
            "input_ids": ids,
            "attention_mask": torch.cat([mask, mask.new_ones(ids.shape)], dim=1),
            "position_ids": positions,
            anatomy.cache_argument: self.cache,
            "use_cache": True,
        }


def run_prefix(anatomy: Anatomy, rows: Sequence[Sequence[int]]) -> Prefix:
    """Run the token rows once and keep their keys and values; no logits beyond the last position."""
    ids, mask, positions = pad_left(rows, anatomy.device)
    cache = DynamicCache(config=anatomy.model.config)
    if ids.shape[1]:
        with torch.no_grad():
            anatomy.model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                use_cache=True,
                logits_to_keep=1,
                **{anatomy.cache_argument: cache},
            )
    return Prefix(cache=cache, mask=mask, lengths=mask.sum(dim=1))
