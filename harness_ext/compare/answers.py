"""What the model answered, out of a row of lm-eval's samples file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

# What the texts of choices weigh in a metric that takes the likeliest choice.
_LENGTHS: Mapping[str, Callable[[str], int]] = {
    "acc_norm": len,
    "acc_bytes": lambda text: len(text.encode("utf-8")),
}
LIKELIER = "(another text is likelier)"


def answers_of(row: Mapping[str, Any], delimiter: str) -> dict[str, str]:
    """The answer as text, by metric; under the name "" that of all metrics that are not named.

    Args:
        row: of a samples file, or a recorded one.
        delimiter: what lm-eval puts before a choice (`target_delimiter` of the task).

    A generated text is the answer itself. Of several choices it is the text of the likeliest, for
    `acc_norm` and `acc_bytes` by log-likelihood per character and per byte. Of a single text whose
    likelihood was asked for it is that text where it is what the model would say. Empty where
    nothing was answered, as where the likelihood of a document was asked for.
    """
    if isinstance(row.get("answer"), str):
        others = row.get("answers")
        return {**(others if isinstance(others, dict) else {}), "": row["answer"]}
    answers = row.get("filtered_resps")
    if not isinstance(answers, list) or not answers:
        return {}
    if all(isinstance(answer, list) and answer for answer in answers):
        return _choices(row, answers, delimiter)
    if _is_rolling(row):
        return {}
    return {"": answers[0] if isinstance(answers[0], str) else str(answers[0])}


def argument(row: Mapping[str, Any], request: int, number: int) -> str | None:
    """What lm-eval asked the model: argument 0 is the prompt, 1 a continuation that is scored."""
    found = _request(row, request).get(f"arg_{number}")
    return found if isinstance(found, str) else None


def _choices(row: Mapping[str, Any], answers: list[list[Any]], delimiter: str) -> dict[str, str]:
    likelihoods = [_number(answer[0]) for answer in answers]
    half = len(answers) // 2
    if len(answers) > 1 and all(argument(row, half + n, 0) == "" for n in range(half)):
        # Behind the choices, the same ones without the question: for `acc_mutual_info`.
        likelihoods = likelihoods[:half]
    texts = [argument(row, number, 1) for number in range(len(likelihoods))]
    if len(texts) == 1:
        would_say = str(answers[0][-1]) == "True"
        return {"": (texts[0] or "") if would_say else LIKELIER}

    best = _likeliest(likelihoods)
    known = [text for text in texts if text]
    if len({*known}) < len(texts):
        # Some are not told, or the choices stand in the prompts, before equal continuations.
        return {"": f"choice {best + 1}"}
    found = {"": known[best]}
    for metric, length in _LENGTHS.items():
        lengths = [length(text.removeprefix(delimiter)) for text in known]
        if metric in row and all(lengths):
            own = _likeliest([one / of for one, of in zip(likelihoods, lengths, strict=True)])
            if own != best:
                found[metric] = known[own]
    return found


def _likeliest(scores: list[float]) -> int:
    return scores.index(max(scores))


def _is_rolling(row: Mapping[str, Any]) -> bool:
    """Whether the likelihood of a whole document was asked for: there is nothing but the text."""
    request = _request(row, 0)
    return "arg_0" in request and "arg_1" not in request


def _request(row: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    arguments = row.get("arguments")
    found = arguments.get(f"gen_args_{number}") if isinstance(arguments, dict) else None
    return found if isinstance(found, dict) else {}


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return -math.inf
