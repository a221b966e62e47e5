from __future__ import annotations

from typing import Any

import pytest

from harness_ext.compare.answers import LIKELIER, answers_of, argument


def asked(*arguments: tuple[Any, ...]) -> dict[str, Any]:
    """What lm-eval writes of requests: the arguments by number."""
    return {
        f"gen_args_{number}": {f"arg_{place}": value for place, value in enumerate(own)}
        for number, own in enumerate(arguments)
    }


def choice(*choices: tuple[str, float], delimiter: str = " ", **fields: Any) -> dict[str, Any]:
    return {
        "arguments": asked(*(("q", f"{delimiter}{text}") for text, _ in choices)),
        "filtered_resps": [[str(likelihood), "False"] for _, likelihood in choices],
        **fields,
    }


def test_a_generated_text_is_the_answer() -> None:
    row = {"arguments": asked(("q", {"until": []})), "filtered_resps": ["-1.5"]}
    assert answers_of(row, " ") == {"": "-1.5"}


def test_metrics_with_lengths_choose_by_them() -> None:
    # 3, 13 and 11 characters; 3, 13 and 22 bytes: each metric takes another.
    row = choice(
        ("yes", -2.0),
        ("certainly not", -4.0),
        ("é" * 11, -4.5),
        acc=0.0,
        acc_norm=1.0,
        acc_bytes=0.0,
    )
    assert answers_of(row, " ") == {
        "": " yes",
        "acc_norm": " certainly not",
        "acc_bytes": f" {'é' * 11}",
    }


def test_the_delimiter_of_the_task_is_no_part_of_a_choice() -> None:
    # Without it -1/1 < -2/3; with it as a part -1/5 > -2/7.
    row = choice(("a", -1.0), ("abc", -2.0), delimiter="::::", acc_norm=1.0)
    assert answers_of(row, "::::") == {"": "::::a", "acc_norm": "::::abc"}
    assert answers_of(row, " ") == {"": "::::a"}


def test_likelihoods_without_the_question_are_no_choices() -> None:
    choices = [("q", " a"), ("q", " b"), ("", " a"), ("", " b")]
    row = {
        "arguments": asked(*choices),
        "filtered_resps": [["-5", "False"], ["-3", "False"], ["-1", "False"], ["-2", "False"]],
    }
    assert answers_of(row, " ") == {"": " b"}


@pytest.mark.parametrize(
    "arguments", [asked(("left", " end"), ("right", " end")), asked(("q",), ("q",)), None]
)
def test_choices_that_the_continuations_do_not_tell_are_numbered(arguments: Any) -> None:
    row = {"arguments": arguments, "filtered_resps": [["-5", "False"], ["-3", "False"]]}
    assert answers_of(row, " ") == {"": "choice 2"}


@pytest.mark.parametrize(("greedy", "answer"), [("True", " end"), ("False", LIKELIER)])
def test_a_single_likelihood_answers_whether_the_text_is_the_likeliest(
    greedy: str, answer: str
) -> None:
    row = {"arguments": asked(("q", " end")), "filtered_resps": [["-0.5", greedy]]}
    assert answers_of(row, " ") == {"": answer}


def test_the_likelihood_of_a_document_is_no_answer() -> None:
    row = {"arguments": asked(("a long text",)), "filtered_resps": ["-734.25"]}
    assert answers_of(row, " ") == {}
    assert argument(row, 0, 0) == "a long text" and argument(row, 0, 1) is None


def test_a_recorded_row_holds_its_answers() -> None:
    row = {"answer": "a", "answers": {"exact_match,strict": "b"}}
    assert answers_of(row, " ") == {"": "a", "exact_match,strict": "b"}
