"""`taskvec vectors`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from harness_ext import cli
from harness_ext.commands import vectors as command
from harness_ext.commands.vectors_page import visible
from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from harness_ext.steering.anatomy import dissect
from harness_ext.steering.fingerprint import fingerprint
from harness_ext.steering.store import save
from harness_ext.steering.vector_file import VectorFile, document_id
from tests.models import save_tiny, tiny_model, tiny_tokenizer
from tests.vector_files import header

# Tensors are tiny here: handing them to several threads costs more than it saves.
torch.set_num_threads(1)

WIDTH = 32


def by_hand(model: Any, state: Tensor) -> Tensor:
    """Probabilities of a Llama's output tokens for a state after the last layer."""
    norm = model.model.norm
    scaled = norm.weight * state / (state.square().mean() + norm.variance_epsilon).sqrt()
    return (model.lm_head.weight @ scaled).exp() / (model.lm_head.weight @ scaled).exp().sum()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama."""
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def lm(folder: Path) -> TaskVectorLM:
    return TaskVectorLM(pretrained=str(folder), method="none")


@pytest.fixture
def make(tmp_path: Path, folder: Path, lm: TaskVectorLM) -> Callable[..., tuple[Path, Tensor]]:
    """Writes a file of vectors of the tiny model; settings change its header."""

    def write(items: int = 3, cues: int = 2, **settings: Any) -> tuple[Path, Tensor]:
        draw = torch.Generator().manual_seed(items + cues)
        tensor = 3 * torch.randn(items, cues, WIDTH, generator=draw)
        fields = {
            "model": str(folder),
            "fingerprint": fingerprint(lm.model, lm.tokenizer),
            "documents": None if items == 1 else [document_id(str(n)) for n in range(items)],
            "average": 50 if items == 1 else 0,
            **settings,
        }
        path = tmp_path / f"{items}x{cues}.safetensors"
        save(path, VectorFile(tensor, header(**fields)))
        return path, tensor

    return write


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What `taskvec vectors show` prints."""

    def run(*arguments: object) -> str:
        assert cli.main(["vectors", "show", *map(str, arguments)]) == 0
        return capsys.readouterr().out

    return run


def test_the_nearest_tokens_are_those_of_final_norm_and_unembedding(
    make: Callable[..., tuple[Path, Tensor]], shown: Callable[..., str], lm: TaskVectorLM
) -> None:
    path, tensor = make()
    (found,) = json.loads(shown(path, "--json", "--top", 7))
    for tokens, state in zip(found["tokens"], tensor.mean(dim=0), strict=True):
        expected = by_hand(lm.model, state).topk(7)
        assert [token["id"] for token in tokens] == expected.indices.tolist()
        probabilities = [token["probability"] for token in tokens]
        assert probabilities == pytest.approx(expected.values.tolist(), rel=1e-4)


def test_the_nearest_tokens_pass_through_a_models_soft_cap() -> None:
    model = tiny_model("gemma2", final_logit_softcapping=2.0)
    state = torch.randn(WIDTH, generator=torch.Generator().manual_seed(0))
    norm = model.model.norm
    scaled = (1 + norm.weight) * state / (state.square().mean() + norm.eps).sqrt()
    expected = (2 * torch.tanh(model.lm_head.weight @ scaled / 2)).softmax(dim=0).topk(5)
    (tokens,) = command.nearest_tokens(dissect(model), tiny_tokenizer("split"), state[None], 5)
    assert [token.id for token in tokens] == expected.indices.tolist()
    probabilities = [token.probability for token in tokens]
    assert probabilities == pytest.approx(expected.values.tolist(), rel=1e-4)


def test_more_tokens_than_there_are_means_all(lm: TaskVectorLM) -> None:
    (tokens,) = command.nearest_tokens(dissect(lm.model), lm.tokenizer, torch.ones(1, WIDTH), 9999)
    assert sorted(token.id for token in tokens) == list(range(lm.model.config.vocab_size))
    assert sum(token.probability for token in tokens) == pytest.approx(1)


def test_json_holds_header_shape_norms_and_cosines(
    make: Callable[..., tuple[Path, Tensor]], shown: Callable[..., str]
) -> None:
    path, tensor = make(documents=[document_id(str(n)) for n in range(3)], seed=17)
    (found,) = json.loads(shown(path, "--json", "--top", 0))
    assert found["file"] == str(path)
    assert found["header"]["seed"] == 17
    assert found["shape"] == [3, 2, WIDTH]
    assert found["tokens"] is None and found["problem"] is None
    lengths = [[float((cue * cue).sum() ** 0.5) for cue in item] for item in tensor]
    for cue, norms in enumerate(found["norms"]):
        own = [item[cue] for item in lengths]
        mean = sum(own) / 3
        sd = (sum((n - mean) ** 2 for n in own) / 2) ** 0.5
        assert norms == pytest.approx({"mean": mean, "sd": sd, "min": min(own), "max": max(own)})
    pairs = [float(a @ b) / (n * m) for (a, b), (n, m) in zip(tensor, lengths, strict=True)]
    off = sum(pairs) / 3
    assert found["cosine"][0] == pytest.approx([1, off], abs=1e-5)
    assert found["cosine"][1] == pytest.approx([off, 1], abs=1e-5)


def test_the_page_shows_what_made_the_vectors(
    make: Callable[..., tuple[Path, Tensor]], shown: Callable[..., str]
) -> None:
    path, _ = make(mode="add", strength=0.5)
    page = " ".join(shown(path, "--top", 0).split())
    assert page.startswith(str(path))
    for fact in (
        "architecture LlamaForCausalLM",
        "task forward_upper, 1-shot prompts",
        "method tv_m, layer 2, mode add, strength 0.5",
        "3 × 2 × 32 (items × cues × width), one for each tested document",
        "demos=10 queries=1 seed=-3",
        "development accuracy 0.86",
        "doc_to_text 'Example: {{x}} →'",
    ):
        assert fact in page
    assert "warning" not in page and "chat" not in page


@pytest.mark.parametrize(("items", "cues"), [(3, 1), (3, 5), (3, 10), (3, 33), (1, 1), (1, 5)])
def test_the_page_fits_into_80_columns_without_colours(
    make: Callable[..., tuple[Path, Tensor]],
    shown: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    items: int,
    cues: int,
) -> None:
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    path, _ = make(items, cues)
    first, *lines = shown(path).splitlines()
    assert first == str(path)  # the path stays whole
    assert max(map(len, lines)) <= 80
    assert "\x1b[" not in "".join(lines)
    assert "…" not in "".join(line for line in lines if "sha256" not in line)
    assert sum(line.startswith("query ") for line in lines) == (2 if 1 < cues <= 10 else 1)
    assert any("cosine between cues" in line for line in lines) == (cues > 10)


def test_every_file_is_shown_with_one_loading_of_their_model(
    make: Callable[..., tuple[Path, Tensor]],
    shown: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[str] = []
    load = command._load_model

    def count(name: str, *rest: Any) -> command.Model:
        loaded.append(name)
        return load(name, *rest)

    monkeypatch.setattr(command, "_load_model", count)
    (one, _), (other, _) = make(1, 1), make(3, 2)
    found = json.loads(shown(one, other, "--json"))
    assert [each["file"] for each in found] == [str(one), str(other)]
    assert all(each["tokens"] for each in found)
    assert len(loaded) == 1


def test_no_model_is_loaded_for_no_tokens(make: Callable[..., tuple[Path, Tensor]]) -> None:
    path, _ = make(model="/nowhere")
    code = (
        "import sys; from harness_ext import cli; "
        f"cli.main(['vectors', 'show', {str(path)!r}, '--top', '0']); "
        "print(sorted({'transformers', 'lm_eval'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_named_model_stands_in_for_the_files_own(
    make: Callable[..., tuple[Path, Tensor]], shown: Callable[..., str], folder: Path
) -> None:
    path, _ = make(model="/nowhere", revision="gone")
    (found,) = json.loads(shown(path, "--json", "--pretrained", folder))
    assert found["problem"] is None
    assert [len(tokens) for tokens in found["tokens"]] == [5, 5]


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (None, ("org/model", "v2", "bfloat16")),
        ("org/model", ("org/model", "v2", "bfloat16")),
        ("elsewhere", ("elsewhere", None, "bfloat16")),
    ],
)
def test_the_model_is_asked_for_in_the_files_dtype_and_its_own_revision(
    named: str | None, expected: tuple[str, str | None, str]
) -> None:
    asked: list[tuple[str, str | None, str]] = []

    def loader(*request: Any) -> command.Model:
        asked.append(request)
        raise UsageError("offline")

    file = VectorFile(
        torch.ones(1, 1, WIDTH),
        header(model="org/model", revision="v2", dtype="bfloat16", documents=None),
    )
    with suppress(UsageError):
        command.summary(Path("file"), file, named, 5, loader)
    assert asked == [expected]


def test_a_model_that_is_gone_is_named_and_the_rest_shown(
    make: Callable[..., tuple[Path, Tensor]], shown: Callable[..., str], tmp_path: Path
) -> None:
    path, _ = make(model=str(tmp_path / "gone"))
    page = " ".join(shown(path).split())
    assert "no nearest tokens: pretrained=" in page
    assert "--pretrained" in page
    assert "norm (± sd)" in page


def test_a_named_model_that_is_not_there_is_an_error(
    make: Callable[..., tuple[Path, Tensor]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = make()
    gone = str(tmp_path / "gone")
    assert cli.main(["vectors", "show", str(path), "--pretrained", gone]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert gone in printed.err


def test_another_model_is_told_with_both_fingerprints_and_the_rest_shown(
    make: Callable[..., tuple[Path, Tensor]],
    shown: Callable[..., str],
    lm: TaskVectorLM,
    tmp_path: Path,
) -> None:
    other = save_tiny(tmp_path / "other", tokenizer="spm")
    path, _ = make()
    (found,) = json.loads(shown(path, "--json", "--pretrained", other))
    assert found["tokens"] is None
    assert found["norms"]
    theirs = TaskVectorLM(pretrained=str(other), method="none")
    for made in (lm, theirs):
        for value in list(fingerprint(made.model, made.tokenizer).values())[1:]:
            assert value[:12] in found["problem"]
    page = "".join(shown(path, "--pretrained", other).split())
    assert "".join(f"no nearest tokens: {found['problem']}".split()) in page


def test_a_file_that_cannot_be_used_is_one_line_and_status_2(
    make: Callable[..., tuple[Path, Tensor]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, _ = make()
    missing = tmp_path / "missing.safetensors"
    assert cli.main(["vectors", "show", str(path), str(missing)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"taskvec: error: {missing} does not exist")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "usage: taskvec vectors"),
        (["show"], "FILE"),
        (["show", "file", "--top", "-1"], "-1 is negative"),
        (["show", "file", "--top", "many"], "many"),
    ],
)
def test_a_wrong_command_line_shows_the_usage(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["vectors", *arguments])
    assert message in capsys.readouterr().err


def test_what_a_file_says_cannot_steer_the_terminal(
    make: Callable[..., tuple[Path, Tensor]], shown: Callable[..., str]
) -> None:
    evil = "\x1b[2J\x07\r[red]:smile:\u202e"
    path, _ = make(
        task=evil,
        method=evil,
        model=evil,
        version=evil,
        revision=evil,
        fingerprint={evil: evil},
        template={evil: evil},
        record={"warning": evil, "chosen_by": [evil]},
    )
    page = shown(path)
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(page)
    assert r"\x1b[2J\x07\r[red]:smile:\u202e" in page


def test_visible_text_has_no_blanks_and_tells_texts_apart() -> None:
    texts = [" ", "␣", "\\n", "\n", "\t", "\u2423", "\\u2423", "\xa0", "\u200b", "\x1b", "→ é", "�"]
    seen = [visible(text) for text in texts]
    assert len(set(seen)) == len(set(texts))
    assert all(text.isprintable() and " " not in text for text in seen)
    assert visible(" Paris\n") == r"␣Paris\n"


@pytest.mark.parametrize("kind", ["split", "spm"])
def test_a_tokens_text_is_what_it_adds_in_the_middle(kind: str) -> None:
    tokenizer = tiny_tokenizer(kind)
    names = {"split": ("ĠE", "x", "Ċ"), "spm": ("▁E", "x", "<0x0A>")}[kind]
    found = [
        command.token_text(tokenizer, token) for token in tokenizer.convert_tokens_to_ids(names)
    ]
    assert found == [" E", "x", "\n"]
