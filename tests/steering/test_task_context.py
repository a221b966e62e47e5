from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from lm_eval.api.task import ConfigurableTask, Task

from harness_ext.errors import UsageError
from harness_ext.steering import task_context
from harness_ext.steering.task_context import TaskContext, context_of, watch_tasks

MakeTask = Callable[..., Any]
SAMPLES = [{"question": f"s{n}", "answer": f"a{n}"} for n in range(4)]
NO_RENDERING: Mapping[str, Any] = {}


def render_chat(turns: list[dict[str, str]], add_generation_prompt: bool) -> str:
    text = "".join(f"<{turn['role']}>{turn['content']}</{turn['role']}>" for turn in turns)
    return text + "<assistant>" if add_generation_prompt else text.removesuffix("</assistant>")


CHAT = {"apply_chat_template": True, "chat_template": render_chat}


def context(task: Any, rendering: Mapping[str, Any] = NO_RENDERING) -> TaskContext:
    return TaskContext(task, rendering)


def asked(task: Any) -> list[dict[str, Any]]:
    return list(task.test_docs())


# ---- prompts ------------------------------------------------------------------------------------


def test_a_prompt_is_demonstrations_with_answers_and_a_query_without(stock_task: MakeTask) -> None:
    own = context(stock_task())
    shown, query = own.pool()[:2], own.pool()[5]
    assert own.prompt(shown, query) == "Example: q0 → yes\nExample: q1 → no\nExample: q5 →"
    assert own.prompt([], query) == "Example: q5 →"
    choosing = context(stock_task("multiple_choice"))
    assert choosing.prompt(choosing.pool()[2:3], query) == "Example: q2 → maybe so\nExample: q5 →"


@pytest.mark.parametrize(
    ("settings", "rendering"),
    [
        ({}, {}),
        ({"description": "Answer.\n\n"}, {"system_instruction": "Be brief."}),
        ({"description": "Answer."}, CHAT),
        ({"description": "Answer."}, {**CHAT, "fewshot_as_multiturn": True}),
        ({"gen_prefix": "It is"}, {}),
        ({"gen_prefix": "It is"}, {**CHAT, "fewshot_as_multiturn": True}),
        ({"fewshot_config": {"sampler": "first_n"}}, {}),
        ({"fewshot_config": {"samples": SAMPLES}}, {}),
        ({"fewshot_config": {"doc_to_text": "Shown: {{question}} →"}}, {}),
        ({"fewshot_split": "validation"}, {}),
        ({"fewshot_split": "test"}, {}),
        ({"fewshot_delimiter": "\n\n", "target_delimiter": ""}, {}),
    ],
)
@pytest.mark.parametrize("output_type", ["generate_until", "multiple_choice"])
def test_a_prompt_is_what_lm_eval_writes_for_the_same_demonstrations(
    stock_task: MakeTask,
    output_type: str,
    settings: dict[str, Any],
    rendering: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "samples" in str(settings) and output_type == "multiple_choice":
        settings = {"fewshot_config": {"samples": [{**s, "number": 1} for s in SAMPLES]}}
    task = stock_task(output_type, **settings)
    drawn: list[list[Any]] = []
    sample = task.sampler.sample

    def noting(*args: Any, **kwargs: Any) -> Any:
        drawn.append(list(sample(*args, **kwargs)))
        return drawn[-1]

    monkeypatch.setattr(task.sampler, "sample", noting)
    for query in asked(task):
        prefix = task.doc_to_prefix(query)
        expected = task.fewshot_context(query, num_fewshot=3, gen_prefix=prefix, **rendering)
        assert context(task, rendering).prompt(drawn[-1], query) == expected


def test_the_tasks_own_sampler_is_back_after_a_prompt_even_a_failed_one(
    stock_task: MakeTask,
) -> None:
    task = stock_task()
    sampler = task.sampler
    context(task).prompt(context(task).pool()[:2], asked(task)[0])
    assert task.sampler is sampler
    with pytest.raises(Exception, match="question"):
        context(task).prompt([{"answer": "yes"}], asked(task)[0])
    assert task.sampler is sampler


def test_prompts_of_word_tasks_are_those_of_lm_eval(word_tasks: dict[str, Any]) -> None:
    for task in word_tasks.values():
        own = context(task)
        for query in asked(task)[:2]:
            shown = own.order(query, 0, 0)[:4]
            assert own.prompt(shown, query) == task.fewshot_context(query, num_fewshot=4)


# ---- the few-shot split -------------------------------------------------------------------------


def questions(task: Any) -> list[str]:
    return [document["question"] for document in context(task).pool()]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [f"q{n}" for n in range(12)]),
        ({"fewshot_split": "validation"}, ["q12", "q13", "q14", "q15"]),
        ({"training_split": None, "validation_split": "validation"}, ["q12", "q13", "q14", "q15"]),
        ({"fewshot_config": {"samples": SAMPLES}}, ["s0", "s1", "s2", "s3"]),
        ({"fewshot_config": {"samples": lambda: SAMPLES[:2]}}, ["s0", "s1"]),
        ({"training_split": None, "fewshot_config": {"samples": SAMPLES[:1]}}, ["s0"]),
    ],
)
def test_the_pool_is_the_tasks_few_shot_split(
    stock_task: MakeTask, settings: dict[str, Any], expected: list[str]
) -> None:
    assert questions(stock_task(**settings)) == expected


@pytest.mark.parametrize(
    "settings",
    [
        {"training_split": None},
        {"training_split": None, "test_split": None, "validation_split": "validation"},
        {"fewshot_split": "test"},
        {"fewshot_split": "test", "fewshot_config": {"sampler": "first_n"}},
    ],
    ids=["only a test split", "the validation split is tested", "the test split", "and a sampler"],
)
def test_a_task_without_a_few_shot_split_is_refused(
    stock_task: MakeTask, settings: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match="task 'stock' has no few-shot split"):
        context(stock_task(**settings)).pool()


# ---- the order of demonstrations ----------------------------------------------------------------


def order(task: Any, document: Any, draw: int | str = 0, seed: int = 0) -> list[str]:
    return [other["question"] for other in context(task).order(document, draw, seed)]


def test_an_order_holds_every_other_document_once(stock_task: MakeTask) -> None:
    task = stock_task()
    document, stranger = context(task).pool()[3], asked(task)[0]
    assert sorted(order(task, document)) == sorted({f"q{n}" for n in range(12)} - {"q3"})
    assert sorted(order(task, stranger)) == sorted(f"q{n}" for n in range(12))


def test_documents_with_the_tested_text_are_left_out_and_repeated_ones_stand_once(
    stock_task: MakeTask,
) -> None:
    samples = [*SAMPLES, {"question": "s1", "answer": "another"}, SAMPLES[2]]
    task = stock_task(fewshot_config={"samples": samples})
    for draw in range(5):
        assert sorted(order(task, {"question": "s1", "answer": "x"}, draw)) == ["s0", "s2", "s3"]


def test_the_order_follows_from_document_draw_seed_and_task(stock_task: MakeTask) -> None:
    task = stock_task()
    one, two = asked(task)[:2]
    given = order(task, one)
    assert given == order(stock_task(), one)
    assert given == order(task, dict(one))
    others = [
        order(task, two),
        order(task, one, draw=1),
        order(task, one, draw="development"),
        order(task, one, seed=1),
        order(stock_task(task="another"), one),
    ]
    assert all(other != given for other in others)
    assert given == order(task, one), "earlier orders must leave no trace"


def test_the_order_is_the_same_in_every_process_and_on_every_machine(stock_task: MakeTask) -> None:
    task = stock_task()
    found = order(task, asked(task)[0], draw="development 0 1", seed=3)
    assert " ".join(found) == "q1 q7 q8 q5 q6 q0 q2 q11 q10 q4 q9 q3"


def test_every_document_comes_first_about_equally_often(stock_task: MakeTask) -> None:
    own = context(stock_task())
    document = asked(own.task)[0]
    first = [own.order(document, draw, 0)[0]["question"] for draw in range(600)]
    counts = [first.count(f"q{n}") for n in range(12)]
    assert min(counts) > 22 and max(counts) < 78  # 50 expected, standard deviation 7


def test_word_tasks_bring_their_own_order(word_tasks: dict[str, Any]) -> None:
    task = word_tasks["bijection_upper"]
    query = asked(task)[0]
    assert context(task).order(query, "x", 5) == task.sampler.order(query, "x")


# ---- documents ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output_type", "settings", "expected"),
    [
        ("generate_until", {}, ["no"]),
        ("generate_until", {"doc_to_target": "answer"}, ["no"]),
        ("generate_until", {"doc_to_target": "{{[answer, 'nope']}}"}, ["no", "nope"]),
        ("multiple_choice", {}, ["no"]),
        ("multiple_choice", {"doc_to_target": "answer"}, ["no"]),
        ("multiple_choice", {"doc_to_target": "both"}, ["no", "yes"]),
    ],
)
def test_answers_are_texts_whatever_form_the_target_has(
    stock_task: MakeTask, output_type: str, settings: dict[str, Any], expected: list[str]
) -> None:
    own = context(stock_task(output_type, **settings))
    assert own.answers(asked(own.task)[0]) == expected


def test_word_tasks_accept_every_form_the_target_first(word_tasks: dict[str, Any]) -> None:
    own = context(word_tasks["forward_french"])
    for document in asked(own.task):
        assert own.answers(document) == document["answers"]
        assert own.answers(document)[0] == own.task.doc_to_target(document)


def test_choice_texts_are_the_choices_of_the_document(stock_task: MakeTask) -> None:
    own = context(stock_task("multiple_choice"))
    assert own.choices
    assert own.choice_texts(asked(own.task)[0]) == ["yes", "no", "maybe so"]
    assert not context(stock_task()).choices


def test_a_task_with_its_choices_in_the_prompt_is_refused(stock_task: MakeTask) -> None:
    task = stock_task("multiple_choice", doc_to_text="number", doc_to_target="answer")
    with pytest.raises(UsageError, match=r"'stock' puts its choices into the prompt"):
        context(task).text(asked(task)[0])


def test_few_shot_documents_that_cannot_be_queries_are_refused_and_their_fields_named(
    stock_task: MakeTask,
) -> None:
    shown = {"samples": [{"q": "s0", "a": "yes"}], "doc_to_text": "{{q}} →", "doc_to_target": "a"}
    task = stock_task(fewshot_config=shown)
    with pytest.raises(UsageError, match="fields q, a: 'question' is undefined"):
        context(task).order(asked(task)[0], 0, 0)


def test_the_key_tells_draws_apart_and_the_identity_does_not(word_tasks: dict[str, Any]) -> None:
    own = context(word_tasks["bijection_upper"])
    one = asked(own.task)[0]
    again = {**one, "draw": 7}
    assert own.key(one) != own.key(again)
    assert own.key(one) == own.key(dict(reversed(one.items())))
    assert own.identity(one) == own.identity(again)


def test_a_mirrored_pair_has_the_identity_of_the_pair(word_tasks: dict[str, Any]) -> None:
    own = context(word_tasks["bijection_upper"])
    sides = [d for d in own.pool() if d["pair"] == own.pool()[0]["pair"]]
    assert {document["side"] for document in sides} == {"x", "y"}
    assert len({own.identity(document) for document in sides}) == 1


def test_a_field_called_pair_means_nothing_in_a_foreign_task(stock_task: MakeTask) -> None:
    own = context(stock_task())
    one, two = ({"question": q, "answer": "yes", "pair": "same"} for q in ("a", "b"))
    assert own.identity(one) != own.identity(two)


@pytest.mark.parametrize(
    ("settings", "rendering"),
    [({}, {}), ({}, CHAT), ({"gen_prefix": "It is"}, CHAT), ({"gen_prefix": "It is "}, CHAT)],
)
def test_the_delimiter_is_what_lm_eval_puts_before_an_answer(
    stock_task: MakeTask, settings: dict[str, Any], rendering: dict[str, Any]
) -> None:
    task = stock_task("multiple_choice", **settings)
    document = asked(task)[0]
    (first, *_) = task.construct_requests(
        document, "context", metadata=("stock", 0, 1), **{"apply_chat_template": False, **rendering}
    )
    assert first.args[1] == context(task, rendering).delimiter + "yes"


@pytest.mark.parametrize(("given", "expected"), [(None, 0), (0, 0), (3, 3)])
def test_shots_are_the_number_lm_eval_was_asked_for(
    stock_task: MakeTask, given: int | None, expected: int
) -> None:
    task = stock_task()
    task.set_config("num_fewshot", given)
    assert context(task).shots == expected
    assert context(task).name == "stock"


# ---- reaching tasks -----------------------------------------------------------------------------


def test_a_task_is_noted_when_lm_eval_builds_its_requests(stock_task: MakeTask) -> None:
    watch_tasks()
    task = stock_task(task="noted")
    with pytest.raises(UsageError, match="requests of task 'noted' came without the task"):
        context_of("noted")
    task.build_all_requests(limit=1, system_instruction="Be brief.", **CHAT)
    found = context_of("noted")
    assert found.task is task
    assert found.rendering == {"system_instruction": "Be brief.", **CHAT}
    assert found.prompt([], asked(task)[0]) == task.instances[0].args[0]


def test_a_task_is_noted_weakly(stock_task: MakeTask) -> None:
    watch_tasks()
    task = stock_task(task="forgotten")
    task.build_all_requests(limit=1)
    del task
    gc.collect()
    with pytest.raises(UsageError, match="'forgotten'"):
        context_of("forgotten")


def test_of_two_tasks_with_one_name_the_one_built_last_counts(stock_task: MakeTask) -> None:
    watch_tasks()
    one, two = stock_task(task="same"), stock_task(task="same")
    two.build_all_requests(limit=1)
    one.build_all_requests(limit=1)
    assert context_of("same").task is one


def test_watching_twice_wraps_once() -> None:
    watch_tasks()
    wrapped = Task.build_all_requests
    watch_tasks()
    assert Task.build_all_requests is wrapped


def test_a_task_that_is_no_yaml_task_is_refused_by_its_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class OwnTask(Task):
        def __init__(self) -> None:
            pass

    monkeypatch.setattr(OwnTask, "__abstractmethods__", frozenset(), raising=False)
    task = OwnTask()
    monkeypatch.setitem(task_context._seen, "own", task)
    assert not isinstance(task, ConfigurableTask)
    with pytest.raises(UsageError, match="task 'own' is a OwnTask, not a YAML task"):
        context_of("own")


def test_a_failed_build_still_reaches_the_user_as_it_is(stock_task: MakeTask) -> None:
    watch_tasks()
    with pytest.raises(TypeError, match="unknown"):
        partial(stock_task().build_all_requests, unknown=1)()
