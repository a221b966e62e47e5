"""What steering refuses: checks that `taskvec run` makes early and the model makes again.

They need the model's configuration at most, never its weights. Each raises :class:`UsageError`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import meta
from safetensors import SafetensorError

from harness_ext import packaged_models
from harness_ext.config import AUTO, SteeringConfig
from harness_ext.errors import UsageError
from harness_ext.heads.select import head_count
from harness_ext.heads.tsla import refuse_single_label
from harness_ext.methods.selection import needs_development
from harness_ext.steering.context import Document
from harness_ext.steering.episodes import EpisodeShape, episode_about
from harness_ext.steering.prompts import cue_ends
from harness_ext.steering.store import check_readable, check_writable
from harness_ext.steering.task_context import TaskContext

ROLLING = "loglikelihood_rolling"


@contextmanager
def loading(pretrained: object, argument: str = "pretrained") -> Iterator[None]:
    """Name the model (or tokenizer) where what is loaded meanwhile is not there, or is none."""
    try:
        yield
    except (OSError, ValueError, SafetensorError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        known = ", ".join(packaged_models.MODELS)
        packaged = f", or {packaged_models.PREFIX}NAME with NAME out of {known}"
        raise UsageError(
            f"{argument}={pretrained} cannot be loaded: {reason}. {argument} takes a folder or a "
            f"hub name{packaged if argument == 'pretrained' else ''}."
        ) from error


def check_model(steering: SteeringConfig, config: Any) -> None:
    """The layer has to be one of the model's, and heads have to be left where some are knocked out.

    config: the model's transformers configuration.
    """
    text = config.get_text_config()
    n_layers = getattr(text, "num_hidden_layers", None)
    if n_layers is None or not steering.steered:
        return
    if steering.layer != AUTO and int(steering.layer) >= n_layers:
        raise UsageError(
            f"layer={steering.layer} is out of range: the model has {n_layers} layers, 0 to "
            f"{n_layers - 1}. Pass one of these, or layer=auto."
        )
    heads = getattr(text, "num_attention_heads", None)
    if steering.ablate != "none" and isinstance(heads, int):
        count = n_layers * heads
        if head_count(steering.head_fraction, count) == count:
            raise UsageError(
                f"head_fraction={steering.head_fraction} knocks out all {count} heads of the "
                "model. Lower it."
            )


def check_vector_paths(steering: SteeringConfig) -> None:
    """A file or folder of vectors has to be sound, and one to write them in to be writable."""
    if steering.vectors is not None:
        check_readable(Path(steering.vectors))
    if steering.save_vectors is not None:
        check_writable(Path(steering.save_vectors))


def check_response_cache(steering: SteeringConfig) -> None:
    """lm-eval's response cache and steering exclude each other."""
    if steering.steered:
        raise UsageError(
            f"--use_cache cannot be combined with {steering.steering}: lm-eval stores answers "
            "by the prompt's text alone, so answers of another task, draw or vector with the same "
            "prompt would be returned. Drop --use_cache."
        )


def check_chat_template(tokenizer: Any, name: object) -> None:
    """A chat can be rendered only by a tokenizer that says how."""
    if not tokenizer.chat_template:
        raise UsageError(
            f"--apply_chat_template was given, but the tokenizer of {name} has no chat template. "
            "Drop the option or pass a tokenizer that has one."
        )


def check_output_type(steering: SteeringConfig, output_type: str, tasks: Iterable[str]) -> None:
    """Whole texts, as rolling perplexities score them, have no cue to steer at."""
    if steering.steered and output_type == ROLLING:
        raise UsageError(
            f"{steering.steering} needs prompts that end in a cue, and {ROLLING} "
            f"({', '.join(sorted(tasks))}) scores whole texts that have none. Run these tasks with "
            "method=none alone."
        )


def check_task(
    steering: SteeringConfig, context: TaskContext, documents: Mapping[int, Document]
) -> None:
    """What can be asked of a task before anything is computed for it.

    documents: those to be tested, by their numbers. Each has to ask something, and the few-shot
    split has to hold the episode about the first of them and, where its own documents serve to
    choose or to average, about one of these. Heads that are told by labels need two of them.
    """
    if "acc_mutual_info" in context.task.aggregation():
        raise UsageError(
            f"task {context.name!r} reports acc_mutual_info, which scores its choices without a "
            "prompt as well; there is no cue to steer at. Remove the metric, or steer nothing."
        )
    made_here = steering.reads_episodes
    if made_here and steering.method == "tv_ms" and context.shots > steering.demos:
        raise UsageError(
            f"method=tv_ms takes the {context.shots + 1} vectors of a {context.shots}-shot prompt "
            f"from one extraction prompt, but demos={steering.demos} gives that only "
            f"{steering.demos + 1} cues. Raise demos to {context.shots}, or lower num_fewshot."
        )
    if steering.method in ("tv_m", "tv_ms") and context.shots:
        pool = context.pool()
        for document in (*pool, *documents.values()):
            _refuse_second_cue(context, document, steering)
        _check_demonstration(context, pool[0], pool[-1], steering)
    for number, document in documents.items():
        if _is_empty(context, document, steering.cue):
            raise UsageError(
                f"document {number} of task {context.name!r} has an empty query; there is nothing "
                "to answer. Fill or remove the document."
            )
    if not made_here:
        return
    if {steering.method, steering.ablate} & {"tr", "tl", "random"}:
        labels = (own[0] for own in map(context.answers, context.pool()) if own and own[0].strip())
        refuse_single_label(labels, context.name)
    shape = EpisodeShape(steering.demos, context.shots, steering.queries)
    own = context.pool()[:1] if steering.average or needs_development(steering) else []
    for document in (*own, *list(documents.values())[:1]):
        episode_about(context, document, shape, 0, steering.seed)


def _refuse_second_cue(context: TaskContext, document: Document, steering: SteeringConfig) -> None:
    """Where every cue is injected at, a word that holds the cue's text would be taken for one."""
    cue, text, answers = steering.cue, context.text(document), context.answers(document)
    inside = [text] if text.count(cue) > 1 else [a for a in answers if cue in a]
    if inside:
        raise UsageError(
            f"method={steering.method} injects at every cue, but in task {context.name!r} the cue "
            f"{cue!r} also occurs inside {inside[0]!r}. Pass a cue that occurs in no word of the "
            "task, or method=tv, which injects at the last cue alone."
        )


def _check_demonstration(
    context: TaskContext, shown: Document, query: Document, steering: SteeringConfig
) -> None:
    """In a demonstration, too, nothing but white space may stand between cue and answer."""
    text = context.prompt([shown], query)
    after = text[cue_ends(text, steering.cue, 2)[0] :]
    answers = context.answers(shown)
    if not any(after.lstrip().startswith(answer.strip()) for answer in answers):
        between = after.partition(answers[0].strip())[0].strip()[:60]
        raise UsageError(
            f"{between!r} stands between the cue {steering.cue!r} and the answer of a "
            f"demonstration of task {context.name!r}; method={steering.method} injects there too, "
            "and the answer has to follow the cue. Choose a cue that ends what is asked, or run "
            "without the chat template that puts this there."
        )


def _is_empty(context: TaskContext, document: Document, cue: str) -> bool:
    """Whether a prompt has no text but its cue, or none of the fields it is made of is filled."""
    used = _fields(context.task.config.doc_to_text, document)
    if used and all(_blank(document[name]) for name in used):
        return True
    return not context.text(document).replace(cue, "").strip()


def _fields(doc_to_text: Any, document: Document) -> list[str]:
    """The document's fields that a task's prompt is made of; none where a function makes it."""
    if not isinstance(doc_to_text, str):
        return []
    names = {doc_to_text} if doc_to_text in document else _variables(doc_to_text)
    return sorted(names & document.keys())


@functools.lru_cache
def _variables(template: str) -> frozenset[str]:
    return frozenset(meta.find_undeclared_variables(jinja2.Environment().parse(template)))


def _blank(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, (list, tuple, Mapping)) and not value)
