from dataclasses import replace

from harness_ext.compare.board_rows import rows_of
from harness_ext.compare.evaluations import Evaluation, Sample
from harness_ext.compare.page import failures as module
from harness_ext.compare.page.failures import EACH, PROMPT, TEXT, Failures, PromptOf, failures
from tests.compare.page_data import evaluation


def found(*evaluations: Evaluation, prompt_of: PromptOf | None = None) -> Failures:
    metrics = {each.task: "answer_match" for each in evaluations}
    return failures(rows_of(evaluations), metrics, prompt_of)


def test_only_wrong_answers_are_shown_and_all_are_counted() -> None:
    own = found(evaluation(right=lambda n: n >= 12))
    (failing,) = own.tasks["forward_upper"]
    assert (failing.wrong, failing.documents, own.wrong, own.shown) == (12, 20, 12, EACH)
    assert [each.query for each in failing.shown] == ["a0", "a1", "a2"]
    assert [each.answer for each in failing.shown] == ["wrong0", "wrong1", "wrong2"]


def test_the_answer_shown_is_the_one_that_is_scored() -> None:
    plain = evaluation(count=3, right=lambda n: False)
    scored = tuple(replace(e, answers={"answer_match": "scored"}) for e in plain.samples or ())
    (failing,) = found(replace(plain, samples=scored)).tasks["forward_upper"]
    assert {each.answer for each in failing.shown} == {"scored"}


def test_all_rows_show_the_same_documents_in_whatever_order_they_were_asked() -> None:
    one = evaluation(right=lambda n: n == 0)
    other = evaluation(method="tv_m", right=lambda n: n == 0)
    other = replace(other, samples=tuple(reversed(other.samples or ())))
    first, second = found(one, other).tasks["forward_upper"]
    assert first.shown == second.shown != ()


def test_an_evaluation_without_wrong_answers_is_not_listed() -> None:
    own = found(evaluation(right=lambda n: True))
    assert (own.tasks, own.wrong, own.without_samples) == ({}, 0, 0)


def test_scores_that_are_not_right_or_wrong_and_missing_samples_are_counted() -> None:
    plain = evaluation()
    half = tuple(replace(each, scores={"answer_match": 0.5}) for each in plain.samples or ())
    own = found(replace(plain, samples=half), evaluation("inverse_upper", samples=None))
    assert (own.tasks, own.without_samples) == ({}, 2)


def test_long_texts_are_cut_and_a_prompt_keeps_its_end() -> None:
    plain = evaluation(count=3, right=lambda n: False)
    long = tuple(
        replace(each, query="q" * 999, answer="a" * 999, prompt="p" * 999 + "end")
        for each in plain.samples or ()
    )
    (failing,) = found(replace(plain, samples=long)).tasks["forward_upper"]
    shown = failing.shown[0]
    assert len(shown.query) == len(shown.answer) == TEXT
    assert shown.prompt is not None and len(shown.prompt) == PROMPT
    assert shown.prompt.startswith("…") and shown.prompt.endswith("end")


def test_a_prompt_that_was_not_kept_is_asked_for_only_where_it_is_shown() -> None:
    asked: list[str] = []

    def prompt_of(own: Evaluation, sample: Sample) -> str | None:
        asked.append(sample.query)
        return f"prompt of {sample.query}" if sample.query != "a1" else None

    plain = evaluation(right=lambda n: False)
    bare = tuple(replace(each, prompt=None) for each in plain.samples or ())
    (failing,) = found(replace(plain, samples=bare), prompt_of=prompt_of).tasks["forward_upper"]
    assert asked == ["a0", "a1", "a2"]
    assert [each.prompt for each in failing.shown] == ["prompt of a0", None, "prompt of a2"]


def test_a_page_holds_no_more_than_its_limit(monkeypatch) -> None:
    monkeypatch.setattr(module, "ALL", 5)
    own = found(*(evaluation(method=f"m{n}", right=lambda n: False) for n in range(4)))
    assert (own.each, own.shown, own.wrong) == (1, 4, 80)
    own = found(*(evaluation(method=f"m{n}", right=lambda n: False) for n in range(9)))
    assert (own.each, own.shown, own.wrong) == (1, 5, 180)
    assert len(own.tasks["forward_upper"]) == 9
