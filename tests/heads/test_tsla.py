from __future__ import annotations

import logging
import random

import numpy as np
import pytest
import torch
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.heads.tsla import LabelSet, Scores, label_set, score
from harness_ext.steering.prompts import PromptEncoder
from tests.models import tiny_tokenizer

EPISODES, LAYERS, HEADS, WIDTH, VOCABULARY = 6, 3, 4, 24, 40
UNEMBEDDING = torch.randn(VOCABULARY, WIDTH, generator=torch.Generator().manual_seed(1))
OUTPUTS = torch.randn(EPISODES, LAYERS, HEADS, WIDTH, generator=torch.Generator().manual_seed(2))


def episode(*tokens: int) -> LabelSet:
    """Of labels that each begin with one of these tokens, the right one first."""
    return LabelSet(tuple(f"label {token}" for token in tokens), tokens)


LABELS = [
    episode(3, 7),
    episode(7, 3),
    episode(3, 7, 12),
    episode(12, 3, 7, 20),
    episode(20, 12),
    episode(30, 3),
]


def by_hand(outputs: Tensor, labels: list[LabelSet], unembedding: Tensor, squared: bool) -> Scores:
    """The definitions, one head and one label at a time; the projection by least squares."""
    tables = np.zeros((4, *outputs.shape[1:3]))
    with_two = sum(len(own.tokens) > 1 for own in labels)
    rows = unembedding.double().numpy()
    for output, own in zip(outputs.double().numpy(), labels, strict=True):
        right, *others = own.tokens
        spanning = rows[list(own.tokens)].T
        for layer in range(outputs.shape[1]):
            for head in range(outputs.shape[2]):
                a = output[layer, head]
                weights = np.linalg.lstsq(spanning, a, rcond=1e-6)[0]
                norm = float(np.sqrt(sum(x * x for x in spanning @ weights)))
                norm = norm**2 if squared else norm
                tables[0, layer, head] += norm / len(labels)
                for other in others:
                    lead = sum(
                        x * (r - o) for x, r, o in zip(a, rows[right], rows[other], strict=True)
                    )
                    tables[1, layer, head] += lead / norm / len(others) / with_two
                tables[2, layer, head] += float(a @ rows[right]) / len(labels)
                logits = [float(a @ rows[token]) for token in own.tokens]
                tables[3, layer, head] += sum(logits) / len(logits) / len(labels)
    return Scores(*map(torch.from_numpy, tables))


def assert_same(found: Scores, expected: Scores) -> None:
    for name in ("tr", "tl", "label_logit", "mean_logit"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == torch.float64
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-9, msg=name)


# ---- scores -------------------------------------------------------------------------------------


@pytest.mark.parametrize("squared", [False, True])
def test_scores_are_those_of_the_definitions(squared: bool) -> None:
    found = score(OUTPUTS, LABELS, UNEMBEDDING, squared)
    assert found.tr.shape == (LAYERS, HEADS)
    assert_same(found, by_hand(OUTPUTS, LABELS, UNEMBEDDING, squared))


@pytest.mark.parametrize("squared", [False, True])
def test_a_vector_inside_the_label_subspace_scores_its_norm_and_one_outside_it_nothing(
    squared: bool,
) -> None:
    labels = episode(3, 7, 12)
    rows = UNEMBEDDING[list(labels.tokens)]
    inside = torch.tensor([0.5, -1.0, 2.0]) @ rows
    basis = torch.linalg.qr(rows.T).Q
    outside = OUTPUTS[0, 0, 0] - basis @ (basis.T @ OUTPUTS[0, 0, 0])
    outputs = torch.stack([inside, outside, torch.zeros(WIDTH)])[None, None]
    found = score(outputs, [labels], UNEMBEDDING, squared)
    norm = float(inside.norm())
    assert found.tr[0, 0] == pytest.approx(norm**2 if squared else norm, rel=1e-6)
    assert found.tr[0, 1:].tolist() == pytest.approx([0, 0], abs=1e-5)
    # Nothing is divided by a norm that is rounding alone.
    assert found.tl[0, 1:].tolist() == [0, 0]


def test_the_task_learning_score_changes_sign_when_right_and_wrong_swap() -> None:
    one = score(OUTPUTS[:1], [episode(3, 7)], UNEMBEDDING)
    other = score(OUTPUTS[:1], [episode(7, 3)], UNEMBEDDING)
    torch.testing.assert_close(one.tl, -other.tl, atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(one.tr, other.tr, atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(one.mean_logit, other.mean_logit, atol=1e-12, rtol=1e-9)
    assert one.tl.abs().min() > 1e-3


def test_a_head_that_writes_the_subspace_and_one_that_writes_the_label_are_told_apart() -> None:
    right, wrong = UNEMBEDDING[3], UNEMBEDDING[7]
    both, lead = 5 * (right + wrong), right / right.norm() ** 2 - wrong / wrong.norm() ** 2
    outputs = torch.zeros(1, 2, 2, WIDTH)
    outputs[0, 0, 1], outputs[0, 1, 0] = both, lead
    found = score(outputs, [episode(3, 7)], UNEMBEDDING)
    assert int(found.tr.argmax()) == 1
    assert int(found.tl.argmax()) == 2


def test_scores_do_not_depend_on_the_order_of_episodes_or_of_their_other_labels() -> None:
    plain = score(OUTPUTS, LABELS, UNEMBEDDING)
    order = random.Random(0).sample(range(EPISODES), EPISODES)
    shuffled = [LABELS[i] for i in order]
    assert_same(score(OUTPUTS[order], shuffled, UNEMBEDDING), plain)
    turned = [episode(own.tokens[0], *own.tokens[:0:-1]) for own in LABELS]
    assert_same(score(OUTPUTS, turned, UNEMBEDDING), plain)


def test_scores_are_means_over_episodes() -> None:
    plain = score(OUTPUTS, LABELS, UNEMBEDDING)
    alone = [score(OUTPUTS[i : i + 1], [own], UNEMBEDDING) for i, own in enumerate(LABELS)]
    for name in ("tr", "tl", "label_logit", "mean_logit"):
        mean = torch.stack([getattr(each, name) for each in alone]).mean(dim=0)
        torch.testing.assert_close(getattr(plain, name), mean, atol=1e-12, rtol=1e-9)


def test_outputs_and_unembeddings_may_be_coarser_than_float32() -> None:
    outputs, rows = OUTPUTS.bfloat16(), UNEMBEDDING.bfloat16()
    assert_same(score(outputs, LABELS, rows), by_hand(outputs, LABELS, rows, False))


# ---- labels that cannot be told apart -----------------------------------------------------------


@pytest.mark.parametrize("squared", [False, True])
def test_linearly_dependent_unembeddings_span_as_many_dimensions_as_their_rank(
    squared: bool, caplog: pytest.LogCaptureFixture
) -> None:
    rows = UNEMBEDDING.clone()
    rows[12] = 0.3 * rows[3] - 2 * rows[7]  # to float32's rounding
    rows[20] = rows[12]
    with caplog.at_level(logging.WARNING):
        found = score(OUTPUTS, LABELS, rows, squared, "mine")
    assert_same(found, by_hand(OUTPUTS, LABELS, rows, squared))
    assert caplog.messages == [
        "task 'mine': in 3 of 6 episodes the unembeddings of the labels are linearly dependent; "
        "they span as many dimensions as their rank."
    ]
    # The third episode's three labels span no more than two of them do.
    three = score(OUTPUTS[2:3], LABELS[2:3], rows)
    two = score(OUTPUTS[2:3], [episode(3, 7)], rows)
    torch.testing.assert_close(three.tr, two.tr, atol=1e-5, rtol=1e-5)


def test_unembeddings_of_zero_span_nothing() -> None:
    found = score(OUTPUTS, LABELS, torch.zeros_like(UNEMBEDDING))
    assert not found.tr.any() and not found.tl.any()


def test_labels_that_share_a_first_token_count_once_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    labels = [*LABELS[:4], LabelSet(("a", "ab"), (3,)), LabelSet(("b", "bc", "a"), (7, 3))]
    with caplog.at_level(logging.WARNING):
        found = score(OUTPUTS, labels, UNEMBEDDING, task="mine")
    assert_same(found, by_hand(OUTPUTS, labels, UNEMBEDDING, False))
    assert caplog.messages == [
        "task 'mine': in 2 of 6 episodes labels begin with the same token, which counts once.",
        "task 'mine': 1 of 6 episodes have a single label token and no part in the task-learning "
        "score.",
    ]
    with_two = [0, 1, 2, 3, 5]
    without = score(OUTPUTS[with_two], [labels[i] for i in with_two], UNEMBEDDING)
    torch.testing.assert_close(found.tl, without.tl)


def test_nothing_is_said_where_all_labels_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        score(OUTPUTS, LABELS, UNEMBEDDING)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            [LabelSet(("yes",), (3,))] * 2,
            "task 'mine': every episode has one and the same label, 'yes'.*take more dem",
        ),
        (
            [LabelSet(("possible", "positive"), (3,)), LabelSet(("positive",), (3,))],
            r"task 'mine': the labels 'positive', 'possible' all begin with one token \(id 3\)"
            ".*other target delim",
        ),
        (
            [LabelSet(("yes",), (3,)), LabelSet(("no",), (7,))],
            r"task 'mine': no episode has labels that begin with different tokens.*\('no', 'yes'\)"
            ".*take more",
        ),
        (
            [LabelSet(tuple(f"a{n}" for n in range(9)), (3,))],
            r"labels 'a0', 'a1', 'a2', 'a3', 'a4', 'a5', … all begin",
        ),
    ],
)
def test_labels_of_one_token_are_refused_and_named(labels: list[LabelSet], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        score(OUTPUTS[: len(labels)], labels, UNEMBEDDING, task="mine")


# ---- label sets ---------------------------------------------------------------------------------


def labels_of(kind: str, right: str, labels: list[str]) -> tuple[tuple[str, ...], list[str]]:
    tokenizer = tiny_tokenizer(kind)
    encoder = PromptEncoder(tokenizer, tokenizer.encode, "→")
    prompt = encoder.prompt("Example: cat → yes\nExample: red →")
    found = label_set(encoder, prompt, " ", right, labels)
    return found.labels, tokenizer.convert_ids_to_tokens(found.tokens)


@pytest.mark.parametrize(
    ("kind", "right", "labels", "expected"),
    [
        ("words", "yes", ["no", "yes", "no"], ["yes", "no"]),
        ("words", "no", ["yes", "yes"], ["no", "yes"]),  # right, though no demonstration has it
        ("spm", "an", ["be", "ant"], ["▁a", "▁b"]),
        ("split", "yes", ["no"], ["y", "n"]),  # behind the blank that both begin with
        ("split", "Erna", ["no"], ["ĠE", "Ġ"]),  # as it continues the prompt, not alone
        ("words", "yes", ["yes", "yes"], ["yes"]),
    ],
)
def test_label_sets_hold_first_tokens_as_they_continue_the_prompt_the_right_one_first(
    kind: str, right: str, labels: list[str], expected: list[str]
) -> None:
    names, tokens = labels_of(kind, right, labels)
    assert tokens == expected
    assert names == tuple(dict.fromkeys([right, *labels]))
