"""The steering arguments of `taskvec-hf`: names, meanings, defaults, and their checks.

Nothing heavy is imported, so that arguments can be checked before a model is loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from harness_ext import combining, parsing
from harness_ext.parsing import AUTO as AUTO
from harness_ext.parsing import Auto as Auto
from harness_ext.parsing import Parser

log = logging.getLogger(__name__)

METHODS = ("none", *combining.TASK_VECTORS, *combining.HEADS)
Mode = Literal["replace", "add"]
InjectAt = Literal["layer", "own"]
AblateAt = Literal["all", "cue"]
AblateWith = Literal["zero", "mean"]


def _about(parse: Parser, accepted: str, help: str, with_heads: Any = None) -> Mapping[str, Any]:
    """with_heads: the default where heads are injected or knocked out, if it is another."""
    return {"parse": parse, "accepted": accepted, "help": help, "with_heads": with_heads}


def _words(accepted: tuple[str, ...]) -> tuple[Parser, str]:
    """The parser of one of some words, and what it accepts."""
    return parsing.choice(accepted), ", ".join(f"`{word}`" for word in accepted)


@dataclass(frozen=True)
class SteeringConfig:
    """What to inject or knock out, where, and on which draws: one checked set of arguments.

    Built by :func:`parse_model_args`; every field is one `--model_args` name.
    """

    method: str = field(
        default="tv",
        metadata=_about(
            *_words(METHODS),
            "`none` injects nothing (without `ablate` it equals stock `hf`); `tv` injects a task "
            "vector, the state at the last cue of a prompt with demonstrations, at the last cue; "
            "`tv_m` and `tv_ms` inject one at every cue of an N-shot prompt: `tv_m` from N+1 "
            "prompts, `tv_ms` from the last N+1 cues of one; `tr`, `tl`, `ih` and `random` add "
            "the summed mean outputs of attention heads at the last cue: task-recognition, "
            "task-learning or induction heads, or others drawn at random.",
        ),
    )
    layer: int | Auto = field(
        default=AUTO,
        metadata=_about(
            parsing.layer,
            "`auto` or a layer index, from 0",
            "Layer after which the vector is injected (and a task vector read); `auto` takes the "
            "one with the best development accuracy, task by task.",
        ),
    )
    mode: Mode = field(
        default="replace",
        metadata=_about(
            *_words(get_args(Mode)),
            "`replace` puts the vector in the place of the state; `add` adds strength · vector to "
            "it, as outputs of heads always are.",
            with_heads="add",
        ),
    )
    strength: float | Auto = field(
        default=AUTO,
        metadata=_about(
            parsing.strength,
            "`auto` or a number",
            "Factor on an added vector (`mode=add` only); `auto` takes the best on the "
            "development episodes out of 0.5, 1, 2 and 4 (heads: 1, 2, 4 and 8).",
        ),
    )
    demos: int = field(
        default=10,
        metadata=_about(
            parsing.whole(1),
            "a whole number ≥ 1",
            "Demonstrations in an extraction prompt.",
            with_heads=8,
        ),
    )
    queries: int = field(
        default=1,
        metadata=_about(
            parsing.whole(1),
            "a whole number ≥ 1",
            "Dummy queries that one extraction is averaged over.",
        ),
    )
    average: int = field(
        default=0,
        metadata=_about(
            parsing.whole(0),
            "a whole number ≥ 0",
            "0: every tested query gets a vector from a prompt of its own, as in the paper. N > "
            "0: one reusable vector per task, the mean over N episodes (much faster). Heads are "
            "always scored, and their outputs averaged, over N ≥ 1 episodes.",
            with_heads=50,
        ),
    )
    dev: int = field(
        default=50,
        metadata=_about(
            parsing.whole(1),
            "a whole number ≥ 1",
            "Development episodes from which `auto` chooses, and `tv_m` takes its other vectors.",
        ),
    )
    cue: str = field(
        default="→",
        metadata=_about(
            parsing.cue,
            "any text",
            "Text that ends a demonstration's input, right before the answer.",
        ),
    )
    seed: int = field(
        default=0,
        metadata=_about(
            parsing.whole(),
            "a whole number",
            "Draws of episodes and of random heads. (In the tasks of this package a tested "
            "query's own demonstrations follow lm-eval's few-shot seed instead, so that "
            "in-context learning and the vector see the same ones.)",
        ),
    )
    head_fraction: float = field(
        default=0.03,
        metadata=_about(
            parsing.fraction,
            "a number above 0, at most 1",
            "Share of all the model's heads that are taken, those with the best scores; one at "
            "least.",
        ),
    )
    squared: bool = field(
        default=False,
        metadata=_about(
            parsing.flag,
            "`True`, `False`",
            "Take the squared norm in the scores of `tr` and `tl` heads.",
        ),
    )
    inject_at: InjectAt = field(
        default="layer",
        metadata=_about(
            *_words(get_args(InjectAt)),
            "`layer` adds the sum of the heads' outputs after one layer; `own` adds each head's "
            "after the head's own layer.",
        ),
    )
    draws: int = field(
        default=3,
        metadata=_about(
            parsing.whole(1),
            "a whole number ≥ 1",
            "Draws of `random` heads; the tested documents are dealt over them.",
        ),
    )
    ablate: str = field(
        default="none",
        metadata=_about(
            *_words(("none", *combining.HEADS)),
            "Heads knocked out while the prompt runs and the answer is generated or scored, with "
            "`method=none` alone.",
        ),
    )
    ablate_at: AblateAt = field(
        default="all",
        metadata=_about(
            *_words(get_args(AblateAt)),
            "`all` knocks them out at every token: a head does part of its work at the labels of "
            "the demonstrations, and with `cue`, at the last cue alone, what it wrote there would "
            "still be read.",
        ),
    )
    ablate_with: AblateWith = field(
        default="zero",
        metadata=_about(
            *_words(get_args(AblateWith)),
            "What a knocked-out head gives instead: nothing, or its mean output over the tokens "
            "(with `ablate_at=cue`, the last cues) of the task's `average` scoring prompts.",
        ),
    )
    save_vectors: str | None = field(
        default=None,
        metadata=_about(
            parsing.path,
            "a folder",
            "Write each task's vectors there, as TASK.safetensors, as soon as they are made; "
            "files of that name are replaced.",
        ),
    )
    vectors: str | None = field(
        default=None,
        metadata=_about(
            parsing.path,
            "a file, or a folder of them",
            "Inject vectors that `save_vectors` wrote, instead of making any; layer, mode and "
            "strength are the file's.",
        ),
    )

    def said(self) -> dict[str, Any]:
        """The arguments that had a part in a run, for its results."""
        values = vars(self)
        if not self.steered:
            return {"method": self.method}
        silent = set(combining.idle(values))
        if self.vectors is not None:
            silent.update(combining.OF_THE_FILE)
        return {name: value for name, value in values.items() if name not in silent}

    @property
    def steered(self) -> bool:
        """Whether anything is changed in the model's forward at all."""
        return combining.is_steered(vars(self))

    @property
    def reads_episodes(self) -> bool:
        """Whether prompts with demonstrations are read, for vectors or for heads."""
        return self.steered and self.vectors is None and "demos" not in combining.idle(vars(self))

    @property
    def steering(self) -> str:
        """The argument that says what is done, as it is given: `method=tv`, or `ablate=tr`."""
        return combining.steering(vars(self))


FIELDS: Mapping[str, Any] = {f.name: f for f in fields(SteeringConfig)}


def parse_model_args(kwargs: Mapping[str, Any]) -> tuple[SteeringConfig, dict[str, Any]]:
    """Split `--model_args` into the steering configuration and everything else.

    Values may be strings or already parsed, as lm-eval hands them over; the word `none` arrives as
    Python's None. Raises :class:`UsageError` for a value outside its range, and for arguments that
    do not go together.
    """
    given = {
        name: FIELDS[name].metadata["parse"](name, value)
        for name, value in kwargs.items()
        if name in FIELDS
    }
    rest = {name: value for name, value in kwargs.items() if name not in FIELDS}
    return _build(given), rest


def _build(given: Mapping[str, Any]) -> SteeringConfig:
    values = {**{name: f.default for name, f in FIELDS.items()}, **given}
    if combining.uses_heads(values):
        other = {name: f.metadata["with_heads"] for name, f in FIELDS.items()}
        own = {name: value for name, value in other.items() if value is not None}
        values = {**values, **own, **given}
    combining.check(given, values)
    config = SteeringConfig(**values)
    ignored = [name for name in given if name != "method"]
    if not config.steered and ignored:
        log.warning("method=none steers nothing, so these have no effect: %s", ", ".join(ignored))
    return config
