"""`taskvec vectors`: what is in a file of vectors, and which output tokens they lie near."""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from torch import Tensor
from torch.nn.functional import normalize

from harness_ext.commands.vectors_page import show
from harness_ext.errors import UsageError
from harness_ext.steering.store import load
from harness_ext.steering.vector_file import VectorFile
from harness_ext.steering.vector_match import check_matches

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from harness_ext.steering.anatomy import Anatomy

Model = tuple["Anatomy", "PreTrainedTokenizerBase"]
Loader = Callable[[str, str | None, str], Model]


@dataclass(frozen=True)
class Norms:
    """Euclidean norms over a cue's items; the standard deviation needs two of them."""

    mean: float
    sd: float | None
    min: float
    max: float


@dataclass(frozen=True)
class Token:
    """An output token with its probability; the text is what it adds in the middle of a text."""

    id: int
    text: str
    probability: float


@dataclass(frozen=True)
class Summary:
    """What there is to show of a file.

    norms: by cue. cosine: [cues, cues], the mean over items. tokens: by cue, the likeliest first;
    None where not asked for, and where `problem` says why there are none.
    """

    path: Path
    file: VectorFile
    norms: list[Norms]
    cosine: list[list[float]]
    tokens: list[list[Token]] | None
    problem: str | None


def main(argv: Sequence[str]) -> int:
    """Print the summary of every file named. Raises :class:`UsageError` for one that is none."""
    args = _parser().parse_args(argv)
    files = [(path, load(path)) for path in args.files]
    loader = functools.lru_cache(maxsize=1)(_load_model)
    shown = (summary(path, file, args.pretrained, args.top, loader) for path, file in files)
    if args.json:
        print(json.dumps([_as_json(each) for each in shown], indent=2))
        return 0
    console = Console(markup=False, highlight=False, emoji=False)
    for each in shown:
        show(console, each)
    return 0


def summary(
    path: Path, file: VectorFile, pretrained: str | None, top: int, loader: Loader
) -> Summary:
    """Norms, cosines and, unless `top` is 0, the nearest tokens by the model that made the file.

    pretrained: a model to take instead. One that cannot be loaded is an error only if it was named
    there; one that the vectors are not of is a `problem` in any case.
    """
    vectors, header = file.vectors, file.header
    tokens, problem = None, None
    if top:
        name = pretrained or header.model
        revision = header.revision if name == header.model else None
        try:
            anatomy, tokenizer = loader(name, revision, header.dtype)
        except UsageError as error:
            if pretrained:
                raise
            problem = f"{error} Name the model's place now with --pretrained."
        else:
            try:
                _check(file, path, anatomy, tokenizer)
                tokens = nearest_tokens(anatomy, tokenizer, vectors.mean(dim=0), top)
            except UsageError as error:
                problem = str(error)
    unit = normalize(vectors, dim=2)
    return Summary(
        path=path,
        file=file,
        norms=[_norms(row) for row in vectors.norm(dim=2).T],
        cosine=(unit @ unit.transpose(1, 2)).mean(dim=0).tolist(),
        tokens=tokens,
        problem=problem,
    )


def nearest_tokens(
    anatomy: Anatomy, tokenizer: PreTrainedTokenizerBase, vectors: Tensor, top: int
) -> list[list[Token]]:
    """The logit lens: the `top` likeliest tokens for each of `vectors` [vectors, width].

    Each stands in the place of the state after the last layer; what follows there (final norm,
    unembedding, scale, soft cap) is the model's own (nostalgebraist 2020).
    """
    from harness_ext.steering.inject import Edit, Injection, inject

    last = len(anatomy.layers) - 1
    edits = [Edit(row, 0, Injection(last, vector)) for row, vector in enumerate(vectors)]
    # Which token it is plays no part: its state is replaced.
    ids = torch.zeros(len(vectors), 1, dtype=torch.long, device=anatomy.device)
    with torch.no_grad(), inject(anatomy, edits, len(vectors)):
        logits = anatomy.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    best = logits[:, -1].float().softmax(dim=1).topk(min(top, logits.shape[-1]))
    return [
        [Token(i, token_text(tokenizer, i), p) for i, p in zip(own_ids, own, strict=True)]
        for own_ids, own in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def token_text(tokenizer: PreTrainedTokenizerBase, token: int) -> str:
    """What a token adds in the middle of a text: decoders drop a leading space at its start."""
    once, twice = (
        str(tokenizer.decode([token] * n, clean_up_tokenization_spaces=False)) for n in (1, 2)
    )
    return twice[len(once) :] if twice.startswith(once) else once


def _load_model(name: str, revision: str | None, dtype: str) -> Model:
    """The model as an evaluation loads it, so that tokenizers get the same padding token."""
    from harness_ext.lm import TaskVectorLM
    from harness_ext.steering.anatomy import dissect

    where = {} if revision is None else {"revision": revision}
    lm = TaskVectorLM(pretrained=name, dtype=dtype, method="none", **where)
    return dissect(lm.model), lm.tokenizer


def _check(
    file: VectorFile, path: Path, anatomy: Anatomy, tokenizer: PreTrainedTokenizerBase
) -> None:
    from harness_ext.steering.fingerprint import fingerprint

    check_matches(
        file,
        path,
        fingerprint=fingerprint(anatomy.model, tokenizer),
        dtype=str(anatomy.model.dtype).removeprefix("torch."),
        hidden_size=anatomy.hidden_size,
        n_layers=len(anatomy.layers),
    )


def _norms(norms: Tensor) -> Norms:
    sd = norms.std().item() if len(norms) > 1 else None
    return Norms(norms.mean().item(), sd, norms.min().item(), norms.max().item())


def _as_json(shown: Summary) -> dict[str, Any]:
    return {
        "file": str(shown.path),
        "header": asdict(shown.file.header),
        "shape": list(shown.file.vectors.shape),
        "norms": [asdict(each) for each in shown.norms],
        "cosine": shown.cosine,
        "tokens": shown.tokens and [[asdict(token) for token in own] for own in shown.tokens],
        "problem": shown.problem,
    }


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="taskvec vectors", description="Look into files of vectors (save_vectors=DIR)."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="show")
    show_files = actions.add_parser(
        "show",
        help="header, shapes, norms, cosines and nearest output tokens of files",
        description="Show what made the vectors, their norms, the cosine between those of "
        "different cues, and the output tokens they lie nearest to (logit lens).",
    )
    show_files.add_argument("files", metavar="FILE", nargs="+", type=Path, help="a vector file")
    show_files.add_argument(
        "--pretrained",
        metavar="P",
        help="the model to read tokens with, a folder or a hub name or packaged:NAME (default: the "
        "one the file names)",
    )
    show_files.add_argument(
        "--top",
        metavar="K",
        type=_count,
        default=5,
        help="nearest output tokens to show (default 5); 0 loads no model",
    )
    show_files.add_argument("--json", action="store_true", help="print JSON, one object per file")
    return parser
