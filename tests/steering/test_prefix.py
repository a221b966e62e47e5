from __future__ import annotations

from typing import Any

import pytest
import torch

from harness_ext.steering import prefix
from harness_ext.steering.anatomy import Anatomy
from harness_ext.steering.prefix import WORTH_A_FORWARD, run_prefix
from tests.steering import oracle
from tests.steering.oracle import token_rows

SHARED = token_rows(6)[0]


def continued(anatomy: Anatomy, cache: Any, rows: list[list[int]]) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = anatomy.model(
            input_ids=torch.tensor(rows), use_cache=True, **{anatomy.cache_argument: cache}
        ).logits
    return found


@pytest.mark.parametrize(
    "rows",
    [
        [[*SHARED, *own] for own in token_rows(3, 3, 3, seed=1)],
        [*token_rows(9, 9, seed=2), token_rows(9, seed=2)[0]],
        [[]] * 3,
    ],
    ids=["a common beginning", "nothing in common but equal rows", "empty rows"],
)
def test_continuing_the_prefix_gives_the_logits_of_the_whole_rows(
    anatomy: Anatomy, rows: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix, "WORTH_A_FORWARD", 1)
    more = token_rows(*[2] * len(rows), seed=5)
    found = continued(anatomy, run_prefix(anatomy, rows), more)
    for row, end, logits in zip(rows, more, found, strict=True):
        expected = oracle.logits(anatomy.model, row + end)[-2:]
        torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("rows", [[SHARED] * 3, [SHARED]], ids=["all the same", "one row"])
def test_rows_all_the_same_can_be_continued_each_in_its_way(
    llama: Anatomy, rows: list[list[int]]
) -> None:
    more = token_rows(*[2] * len(rows), seed=5)
    for end, logits in zip(more, continued(llama, run_prefix(llama, rows), more), strict=True):
        torch.testing.assert_close(logits, oracle.logits(llama.model, SHARED + end)[-2:])


def test_what_all_rows_begin_with_runs_once_where_that_is_worth_a_forward(llama: Anatomy) -> None:
    shapes: list[tuple[int, ...]] = []
    handle = llama.model.get_input_embeddings().register_forward_hook(
        lambda _, args, __: shapes.append(tuple(args[0].shape))
    )
    shared = token_rows(WORTH_A_FORWARD)[0]
    run_prefix(llama, [[*shared, *own] for own in token_rows(3, 3, 3, seed=1)])
    run_prefix(llama, [[*shared[:9], *own] for own in token_rows(3, 3, 3, seed=1)])
    run_prefix(llama, [shared] * 3)
    handle.remove()
    assert shapes == [(1, len(shared)), (3, 3), (3, 12), (1, len(shared))]
