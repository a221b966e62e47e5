"""Chat templates: the answer has to follow the cue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lm_eval.tasks import TaskManager

from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from harness_ext.steering.task_context import context_of
from tests.lm.conftest import Results, answers

OPEN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
CLOSED = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
PREFILLED = {"doc_to_text": "Example: {{question}}", "gen_prefix": "Answer: →"}


@pytest.fixture
def chat(steered: Callable[..., TaskVectorLM]) -> Callable[..., TaskVectorLM]:
    def make(template: str | None, **arguments: Any) -> TaskVectorLM:
        lm = steered(**arguments)
        lm.tokenizer.chat_template = template
        return lm

    return make


@pytest.mark.parametrize("method", ["tv", "none"])
def test_a_model_without_a_chat_template_is_named(
    method: str,
    chat: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    folder: Any,
) -> None:
    with pytest.raises(UsageError, match=r"--apply_chat_template .* has no chat template") as error:
        evaluate(chat(None, method=method), "forward_upper3", limit=1, apply_chat_template=True)
    assert str(folder) in str(error.value)


def test_closing_tags_between_cue_and_answer_are_named(
    chat: Callable[..., TaskVectorLM], evaluate: Callable[..., Results]
) -> None:
    with pytest.raises(UsageError, match="'</user>' stands between the cue '→' and the answer"):
        evaluate(chat(CLOSED), "forward_upper3", limit=1, apply_chat_template=True)


def test_a_template_that_leaves_the_cue_at_the_end_is_steered(
    chat: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    config = stock_task("choose", "multiple_choice")
    options = {"limit": 3, "apply_chat_template": True, "num_fewshot": 2}
    found = evaluate(chat(OPEN, layer=1), config, **options)
    for sample in found["samples"]["choose"]:
        assert all(p.count("<user>") == 3 and p.endswith("→") for p, _ in sample["arguments"])
    plain = evaluate(chat(OPEN, method="none"), config, **options)
    assert answers(found, "choose") != answers(plain, "choose")


@pytest.mark.parametrize("template", [OPEN, CLOSED])
def test_a_cue_that_the_answer_is_prefilled_with_is_steered_under_any_template(
    template: str,
    chat: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    config = stock_task("prefilled", "multiple_choice", **PREFILLED)
    lm = chat(template)
    found = evaluate(lm, config, limit=3, apply_chat_template=True)
    for sample in found["samples"]["prefilled"]:
        assert all(prompt.endswith("<assistant>Answer: →") for prompt, _ in sample["arguments"])
    plain = evaluate(chat(template, method="none"), config, limit=3, apply_chat_template=True)
    assert answers(found, "prefilled") != answers(plain, "prefilled")


@pytest.mark.parametrize("settings", [{}, PREFILLED, {**PREFILLED, "gen_prefix": "→ "}])
@pytest.mark.parametrize("apply", [True, False])
def test_choices_are_developed_with_the_delimiter_they_are_tested_with(
    apply: bool,
    settings: dict[str, Any],
    chat: Callable[..., TaskVectorLM],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    config = stock_task("delimited", "multiple_choice", **settings)
    task = TaskManager(include_defaults=False).load([config])["tasks"]["delimited"]
    task.build_all_requests(
        limit=1,
        apply_chat_template=apply,
        chat_template=chat(OPEN).apply_chat_template if apply else None,
    )
    context = context_of("delimited")
    choices = context.choice_texts(task.instances[0].doc)
    tested = [instance.args[1] for instance in task.instances]
    assert tested == [context.delimiter + choice for choice in choices]
