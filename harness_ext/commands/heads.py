"""`taskvec heads`: which attention heads recognise a task, which learn it, and what they do."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness_ext import __version__, packaged_models
from harness_ext.errors import UsageError

if TYPE_CHECKING:
    from harness_ext.commands.heads_measure import TaskFindings
    from harness_ext.config import SteeringConfig
    from harness_ext.methods import Bench
    from harness_ext.steering.task_context import TaskContext

ARGUMENTS = ("head_fraction", "squared", "demos", "queries", "average", "cue", "seed")
"""The steering arguments that have a part in it."""

FEWSHOT_SEED = 1234
"""lm-eval's own default, so that heads are scored on the prompts that its runs score them on."""


def main(argv: Sequence[str]) -> int:
    """Score a model's heads on tasks, write what is found and print it.

    Raises :class:`UsageError` for what can be seen to be wrong before the model loads, and for a
    model whose heads do not serve.
    """
    args = _parser().parse_args(argv)
    config, loading = _settings(args)

    from rich.console import Console

    from harness_ext.commands.heads_claims import across_tasks, claims
    from harness_ext.commands.heads_measure import check_heads
    from harness_ext.commands.heads_page import show
    from harness_ext.commands.heads_report import Report, write
    from harness_ext.commands.heads_tasks import check_labels, early_tokenizer, load_tasks
    from harness_ext.steering.prompts import PromptEncoder
    from harness_ext.steering.store import check_writable

    name, fewshot_seed = _model_name(loading), _fewshot_seed(args.seed)
    folder = args.output_path or Path("heads") / _file_name(name)
    check_writable(folder, "the findings")
    contexts = load_tasks(args.tasks, args.include_path, config, loading, fewshot_seed)
    early = early_tokenizer(loading)
    if early is not None:
        for context in contexts:
            check_labels(context, config, PromptEncoder(early, early.encode, config.cue))
    bench = _bench(config, loading)
    if early is None:
        for context in contexts:
            check_labels(context, config, bench.encoder)
    check_heads(bench)
    provenance = _provenance(bench, loading, fewshot_seed)
    found = _measured(bench, contexts, provenance, folder)
    across = across_tasks(found, config.head_fraction)
    report = Report(
        provenance={
            "command": shlex.join(["taskvec", "heads", *argv]),
            **provenance,
            "task_versions": {context.name: context.task.VERSION for context in contexts},
        },
        model=name,
        fraction=config.head_fraction,
        squared=config.squared,
        tasks=found,
        across=across,
        claims=claims(found, across),
    )
    files = write(report, folder)
    console = Console(markup=False, highlight=False, emoji=False)
    show(console, report)
    console.print(f"\n{len(files)} files in {folder}", soft_wrap=True)
    return 0


def _measured(
    bench: Bench, contexts: Sequence[TaskContext], provenance: Mapping[str, Any], folder: Path
) -> list[TaskFindings]:
    """The findings on every task, each kept in the folder as soon as it is made.

    What an earlier run kept of the same settings and prompts is not made again.
    """
    from harness_ext.commands.heads_measure import measure, prompts_hash
    from harness_ext.commands.heads_store import load, save

    found: list[TaskFindings] = []
    try:
        for context in contexts:
            made_with = {
                **provenance,
                "task_version": context.task.VERSION,
                "prompts_sha256": prompts_hash(bench, context),
            }
            known = load(folder, made_with, context.name)
            found.append(known or measure(bench, context))
            if known is None:
                save(folder, made_with, found[-1])
    except KeyboardInterrupt:
        print(
            f"\ntaskvec: interrupted. The findings on {len(found)} of {len(contexts)} tasks are "
            f"kept in {folder}; the same command goes on after them.",
            file=sys.stderr,
        )
        raise
    return found


def _settings(args: argparse.Namespace) -> tuple[SteeringConfig, dict[str, Any]]:
    """The configuration, and the arguments that load the model."""
    from lm_eval.utils import simple_parse_args_string

    from harness_ext.config import FIELDS, parse_model_args

    given = simple_parse_args_string(args.model_args)
    for name in given:
        if name in FIELDS and name not in ARGUMENTS:
            raise UsageError(
                f"{name}={given[name]} has no part in `taskvec heads`, which injects nothing and "
                f"knocks nothing out. Drop it; of the steering arguments it takes "
                f"{', '.join(ARGUMENTS)}."
            )
    if not args.tasks:
        raise UsageError(
            "No task is given. Pass --tasks NAME[,NAME…], such as --tasks classify_sentiment; "
            "`lm_eval ls tasks` lists them all."
        )
    config, loading = parse_model_args({"method": "tr", **given})
    if config.head_fraction > 0.5:
        raise UsageError(
            f"head_fraction={config.head_fraction}: `taskvec heads` compares the top heads with as "
            "many others, so it takes a number above 0, at most 0.5."
        )
    return config, loading


def _model_name(loading: Mapping[str, Any]) -> str:
    """The model's name for people: of a folder its last part, of a packaged one that alone."""
    pretrained = str(loading.get("pretrained") or packaged_models.DEFAULT)
    if Path(pretrained).is_dir():
        return Path(pretrained).resolve().name
    return pretrained.removeprefix(packaged_models.PREFIX)


def _file_name(model: str) -> str:
    from harness_ext.commands.heads_store import stem_of

    return stem_of(model)


def _bench(config: SteeringConfig, loading: Mapping[str, Any]) -> Bench:
    """The model, loaded as an evaluation loads it."""
    from harness_ext.lm import TaskVectorLM
    from harness_ext.methods import Bench
    from harness_ext.steering.anatomy import dissect
    from harness_ext.steering.prompts import PromptEncoder

    lm = TaskVectorLM(method="none", **loading)
    return Bench(
        anatomy=dissect(lm.model),
        encoder=PromptEncoder(lm.tokenizer, lm.tok_encode, config.cue),
        config=config,
        max_length=lm.max_length,
        name=str(loading.get("pretrained") or packaged_models.PREFIX + packaged_models.DEFAULT),
        revision=str(lm.revision),
    )


def _provenance(bench: Bench, loading: Mapping[str, Any], fewshot_seed: int) -> dict[str, Any]:
    """What made the findings, whatever the tasks: the same run says the same, whenever it is."""
    model = bench.anatomy.model
    return {
        "versions": {
            "taskvec-harness": __version__,
            **{n: metadata.version(n) for n in ("lm_eval", "scipy", "torch", "transformers")},
        },
        "model": bench.name,
        "revision": bench.revision,
        "dtype": str(model.dtype).removeprefix("torch."),
        "fingerprint": bench.fingerprint(),
        "layers": bench.attention.layers,
        "heads_per_layer": bench.attention.heads,
        "arguments": {name: getattr(bench.config, name) for name in ARGUMENTS},
        "model_args": {name: str(value) for name, value in loading.items()},
        "fewshot_seed": fewshot_seed,
    }


def _fewshot_seed(text: str) -> int:
    """The one of `--seed` that draws demonstrations."""
    parts = text.split(",")
    try:
        if len(parts) not in (1, 4):
            raise ValueError
        return int(parts[-1])
    except ValueError:
        raise UsageError(
            f"--seed {text} is not accepted; it takes a whole number, or four with commas between, "
            "of which the last draws demonstrations."
        ) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="taskvec heads",
        description="Score attention heads on tasks: which recognise the task (TR), which learn it "
        "(TL; Yang et al. 2026, arXiv 2509.24164), which are induction heads (IH); how far these "
        "are the same, within and between tasks; what they look at, and how much of a task vector "
        "they write.",
        epilog="Writes scores.safetensors, scores.json, a layer × head map of each score, as SVG "
        "and PNG, and the findings on each task as soon as they are made: an interrupted run goes "
        "on after them. Files of the same name are replaced, others stay.",
    )
    parser.add_argument(
        "--tasks", metavar="T[,T…]", help="tasks, groups, patterns or YAML files, as for lm_eval"
    )
    parser.add_argument(
        "--model_args",
        metavar="A=V[,A=V…]",
        default="",
        help="as for taskvec run: pretrained=… and what else loads the model (default: the "
        f"packaged model), and of the steering arguments {', '.join(ARGUMENTS)}",
    )
    parser.add_argument(
        "--seed",
        metavar="N",
        default=str(FEWSHOT_SEED),
        help="few-shot seed of the tasks, as for lm_eval: a number, or four with commas between, "
        "the last of which is this one (default %(default)s); other draws follow seed= in "
        "--model_args",
    )
    parser.add_argument(
        "--include_path", metavar="DIR", help="folder of further tasks, as for lm_eval"
    )
    parser.add_argument(
        "--output_path", metavar="DIR", type=Path, help="where to write (default heads/MODEL)"
    )
    return parser
