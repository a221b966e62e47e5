"""Chats as lm-eval renders them: system instruction, demonstrations as turns, prefilled answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lm_eval.tasks import TaskManager

from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from harness_ext.methods import REGISTRY
from harness_ext.steering.task_context import TaskContext
from tests.lm.by_hand import Asked, continuation, cues, score
from tests.lm.conftest import Results, answers
from tests.lm.oracle import Document, Oracle

LAYER = 1
DOCUMENTS = 4
DEMOS = 3
STEERED = [method for method in REGISTRY if method != "none"]
SYSTEM = "Be brief."
# The first leaves the text's end at the end, but for the tags before an answer of its own turn.
OPEN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
CLOSED = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% if not loop.last or add_generation_prompt %}</{{ m.role }}>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
# The arrow stands in the answer's turn, which the model continues.
PREFILLED = {"doc_to_text": "Example: {{question}}", "gen_prefix": "Answer: →"}

Chat = Callable[..., TaskVectorLM]
MakeTask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def oracle(folder: Path) -> Oracle:
    return Oracle(folder)


@pytest.fixture
def chat(steered: Chat) -> Chat:
    def make(template: str, **arguments: Any) -> TaskVectorLM:
        lm = steered(**{"demos": DEMOS, "layer": LAYER, "batch_size": 3, **arguments})
        lm.tokenizer.chat_template = template
        return lm

    return make


def one_turn(shown: Sequence[Document], query: Document, system: str) -> str:
    """Everything in the user's one turn, under OPEN."""
    lines = [f"Example: {d['question']} → {d['answer']}\n" for d in shown]
    return f"{system}<user>{''.join(lines)}Example: {query['question']} →"


def prefilled_turns(shown: Sequence[Document], query: Document, system: str) -> str:
    """A turn for every query and every answer, under CLOSED, each answer behind an arrow."""
    turns = [
        f"<user>Example: {d['question']}</user><assistant>Answer: → {d['answer']}</assistant>"
        for d in shown
    ]
    return f"{system}{''.join(turns)}<user>Example: {query['question']}</user><assistant>Answer: →"


def asked(
    found: Results,
    config: dict[str, Any],
    oracle: Oracle,
    write: Callable[[Sequence[Document], Document, str], str],
    system: str,
    shots: int,
    method: str,
) -> list[Asked]:
    """The documents asked about, with vectors from chats written by hand."""
    task = TaskManager(include_defaults=False).load([config])["tasks"][config["task"]]
    context = TaskContext(task, {})
    steered = {"tv": 1, "tv_ms": shots + 1}[method]
    requests = []
    for sample in found["samples"][config["task"]]:
        document, (prompt, _) = sample["doc"], sample["arguments"][0]
        assert prompt.endswith(write([], document, "").removeprefix("<user>"))
        assert prompt.startswith(system + "<user>Example: ")
        assert prompt.count("→") == shots + 1
        order = context.order(document, 0, 0)
        extraction = write(order[:DEMOS], order[max(DEMOS, shots)], system)
        requests.append(
            Asked(
                document=document,
                prompt=prompt,
                continuations=[pair[1] for pair in sample["arguments"]],
                vectors=[
                    oracle.state(extraction, LAYER, cue)
                    for cue in cues(oracle, extraction)[-steered:]
                ],
            )
        )
    return requests


OF_ONE_TURN = (OPEN, {}, one_turn, {"fewshot_as_multiturn": False})
OF_TURNS = (CLOSED, PREFILLED, prefilled_turns, {"fewshot_as_multiturn": True})


@pytest.mark.parametrize(("method", "shots"), [("tv", 0), ("tv", 2), ("tv_ms", 2)])
@pytest.mark.parametrize("instruction", [None, SYSTEM])
@pytest.mark.parametrize(
    ("template", "settings", "write", "options"),
    [OF_ONE_TURN, OF_TURNS],
    ids=["one turn", "turns, prefilled"],
)
@pytest.mark.parametrize("output_type", ["generate_until", "multiple_choice"])
def test_a_chat_is_steered_at_its_cues(
    output_type: str,
    template: str,
    settings: dict[str, Any],
    write: Callable[..., str],
    options: dict[str, Any],
    instruction: str | None,
    method: str,
    shots: int,
    chat: Chat,
    evaluate: Callable[..., Results],
    stock_task: MakeTask,
    oracle: Oracle,
) -> None:
    choosing = output_type == "multiple_choice"
    more = {} if choosing else {"generation_kwargs": {"until": ["\n"], "max_gen_toks": 5}}
    config = stock_task("chatted", output_type, **settings, **more)
    found = evaluate(
        chat(template, method=method),
        config,
        limit=DOCUMENTS,
        num_fewshot=shots,
        apply_chat_template=True,
        system_instruction=instruction,
        **options,
    )
    system = ""
    if instruction:
        system = f"<system>{SYSTEM}" + ("</system>" if template == CLOSED else "")
    requests = asked(found, config, oracle, write, system, shots, method)
    if not choosing:
        assert answers(found, "chatted") == [
            [[continuation(oracle, a, LAYER, tokens=5)]] for a in requests
        ]
        return
    for per_choice, a in zip(answers(found, "chatted"), requests, strict=True):
        for [(value, greedy)], choice in zip(per_choice, a.continuations, strict=True):
            expected, likeliest = score(oracle, a, choice, LAYER)
            assert value == pytest.approx(expected, abs=1e-3)
            assert greedy == likeliest


@pytest.mark.parametrize("method", STEERED)
@pytest.mark.parametrize("multiturn", [True, False])
def test_tags_between_the_cue_and_the_answer_are_named(
    multiturn: bool,
    method: str,
    chat: Chat,
    evaluate: Callable[..., Results],
    stock_task: MakeTask,
) -> None:
    with pytest.raises(UsageError) as error:
        evaluate(
            chat(CLOSED, method=method),
            stock_task("chatted", "multiple_choice"),
            limit=1,
            num_fewshot=1,
            apply_chat_template=True,
            fewshot_as_multiturn=multiturn,
        )
    assert "'</user><assistant>' stands between the cue '→' and the answer" in str(error.value)


@pytest.mark.parametrize("method", ["tv_m", "tv_ms"])
def test_tags_between_a_demonstrations_cue_and_its_answer_are_named(
    method: str,
    chat: Chat,
    evaluate: Callable[..., Results],
    stock_task: MakeTask,
) -> None:
    """The template leaves the last cue at the end, but puts a tag behind those before it."""
    with pytest.raises(UsageError, match="<assistant>"):
        evaluate(
            chat(OPEN, method=method),
            stock_task("chatted", "multiple_choice"),
            limit=1,
            num_fewshot=2,
            apply_chat_template=True,
            fewshot_as_multiturn=True,
        )
