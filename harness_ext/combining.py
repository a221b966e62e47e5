"""Which steering arguments go together, by their names and checked values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness_ext.errors import UsageError
from harness_ext.parsing import AUTO

TASK_VECTORS = ("tv", "tv_m", "tv_ms")
HEADS = ("tr", "tl", "ih", "random")
"""Methods, and kinds of attention heads to knock out."""

OF_THE_FILE = (
    *("layer", "mode", "strength", "demos", "queries", "average", "dev", "seed"),
    *("head_fraction", "squared", "inject_at"),
)
"""Arguments that vectors from a file bring with them."""

Values = Mapping[str, Any]


def uses_heads(values: Values) -> bool:
    """Whether attention heads are injected or knocked out."""
    return values["method"] in HEADS or values["ablate"] != "none"


def is_steered(values: Values) -> bool:
    """Whether anything is changed in the model's forward at all."""
    return values["method"] != "none" or values["ablate"] != "none"


def steering(values: Values) -> str:
    """The argument that says what is done, as it is given."""
    name = "method" if values["ablate"] == "none" else "ablate"
    return f"{name}={values[name]}"


def check(given: Iterable[str], values: Values) -> None:
    """Raise :class:`UsageError` for arguments that exclude or do not touch each other.

    given: names of those the user gave. values: of all arguments.
    """
    method, ablate, said = values["method"], values["ablate"], steering(values)
    if ablate != "none" and method != "none":
        default = "" if "method" in given else ", the default"
        raise UsageError(
            f"{said} knocks heads out of a model that nothing is injected into, so it takes "
            f"method=none, not method={method}{default}. Pass method=none, or drop ablate."
        )
    if method in HEADS and values["mode"] == "replace":
        raise UsageError(
            f"mode=replace has no meaning with {said}: what heads add to a state cannot stand in "
            "its place. Drop it, or pass mode=add."
        )
    if uses_heads(values) and values["average"] == 0:
        raise UsageError(
            "average=0 is not accepted where attention heads are scored, over episodes of the "
            "few-shot split; average takes a whole number ≥ 1 here."
        )
    if ablate != "none" and values["head_fraction"] == 1:
        raise UsageError(
            "head_fraction=1 knocks every head out, and no model is left; with ablate it takes "
            "a number below 1."
        )
    if "random" in (method, ablate) and values["head_fraction"] > 0.5:
        raise UsageError(
            f"head_fraction={values['head_fraction']} is not accepted with {said}: as many random "
            "heads have to be found beside the task-recognition heads; it takes a number above 0, "
            "at most 0.5 here."
        )
    reasons = idle(values)
    if not is_steered(values):  # then a warning does, but for who forgot to say `ablate`
        reasons = {name: reasons[name] for name in _OF_ABLATION}
    for name in given:
        if name in reasons and values[name] not in (None, "none", AUTO):  # these ask for nothing
            raise UsageError(f"{name}={values[name]} has no meaning {reasons[name]}")
    _check_files(given, values)


_OF_ABLATION = ("ablate", "ablate_at", "ablate_with")


def idle(values: Values) -> dict[str, str]:
    """Arguments that have no part beside the others, each with the reason and what to do."""
    method, ablate, said = values["method"], values["ablate"], steering(values)
    found: dict[str, str] = {}

    def add(names: Iterable[str], reason: str) -> None:
        found.update(dict.fromkeys(names, reason))

    if not uses_heads(values):
        add(("head_fraction", "squared"), f"with {said}: it chooses no heads. Drop it.")
    elif "ih" in (method, ablate):
        add(("squared",), f"with {said}: induction heads are found by their attention. Drop it.")
    if ablate == "ih" and values["ablate_with"] == "zero":
        add(
            ("demos", "queries", "average"),
            "with ablate=ih and ablate_with=zero: induction heads are found on random tokens, not "
            "on the task's prompts. Drop it, or pass ablate_with=mean.",
        )
    if method not in HEADS:
        add(("inject_at", "draws"), f"with {said}: it injects no heads. Drop it.")
    elif method != "random":
        add(("draws",), f"with {said}: its heads are not drawn. Drop it, or pass method=random.")
    if values["inject_at"] == "own":
        add(("layer",), "with inject_at=own: each head has a layer. Drop it, or drop inject_at.")
    if values["mode"] == "replace":
        add(
            ("strength",),
            "with mode=replace: a vector that replaces the state has no factor. Drop it, or pass "
            "mode=add.",
        )
    if ablate == "none":
        kinds = "|".join(HEADS)
        add(_OF_ABLATION, f"without ablate. Drop it, or pass method=none,ablate={kinds}.")
    else:
        names = ("layer", "mode", "strength", "dev", "save_vectors", "vectors")
        add(names, f"with {said}: nothing is injected. Drop it.")
    return found


def _check_files(given: Iterable[str], values: Values) -> None:
    """Vectors from a file bring what made them; a file holds vectors for one layer."""
    path = values["vectors"]
    if path is not None:
        names = (*OF_THE_FILE, "save_vectors")
        said = [name for name in names if name in given and values[name] is not None]
        if said:
            raise UsageError(
                f"vectors={path} brings what its vectors were made with; drop "
                f"{', '.join(f'{name}={values[name]}' for name in said)}, or drop vectors to make "
                "new ones."
            )
    name = "save_vectors" if path is None else "vectors"
    if values[name] is None:
        return
    if values["method"] == "random":
        raise UsageError(
            f"{name}={values[name]} does not go with method=random, whose vectors are of several "
            "draws; a file holds those of one. Drop it."
        )
    if values["inject_at"] == "own":
        raise UsageError(
            f"{name}={values[name]} does not go with inject_at=own: a file holds vectors for one "
            "layer. Drop one of the two."
        )
