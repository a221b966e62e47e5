"""Vectors are injected only into the model, task and documents they were made for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from harness_ext.errors import UsageError
from harness_ext.steering.store import load, save
from harness_ext.steering.vector_file import VectorFile
from harness_ext.steering.vector_match import check_matches, check_task, vectors_for
from tests.vector_files import FINGERPRINT, KEYS, header, vectors

PATH = Path("my.safetensors")
FILE = VectorFile(vectors(), header())
MODEL: dict[str, Any] = {
    "fingerprint": FINGERPRINT,
    "dtype": "float32",
    "hidden_size": 4,
    "n_layers": 3,
}
RUN: dict[str, Any] = {
    "method": "tv_m",
    "task": "forward_upper",
    "template": header().template,
    "shots": 1,
}


def test_the_model_that_made_the_vectors_fits() -> None:
    check_matches(FILE, PATH, **MODEL)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"fingerprint": {**FINGERPRINT, "architecture": "GPT2LMHeadModel"}},
            "architecture is 'LlamaForCausalLM' in the file, 'GPT2LMHeadModel' here",
        ),
        (
            {"fingerprint": {**FINGERPRINT, "unembedding_sha256": "c" * 64}},
            "unembedding_sha256 is aaaaaaaaaaaa… in the file, cccccccccccc… here",
        ),
        (
            {"fingerprint": {**FINGERPRINT, "tokenizer_sha256": "d" * 64}},
            "tokenizer_sha256 is bbbbbbbbbbbb… in the file, dddddddddddd… here",
        ),
        ({"dtype": "bfloat16"}, "dtype is 'float32' in the file, 'bfloat16' here"),
        ({"hidden_size": 5}, "width is 4 in the file, 5 here"),
        ({"n_layers": 2}, "layer 2 in the file, 0 to 1 in the model"),
    ],
)
def test_another_model_is_refused_with_both_values(other: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_matches(FILE, PATH, **{**MODEL, **other})
    assert str(caught.value).startswith(f"my.safetensors does not fit the model: {message}. ")
    assert "packaged:smollm2-135m" in str(caught.value)


def test_weights_of_another_dtype_are_not_called_other_weights() -> None:
    cast = {**FINGERPRINT, "unembedding_sha256": "c" * 64}
    with pytest.raises(UsageError, match="dtype is") as caught:
        check_matches(FILE, PATH, **{**MODEL, "fingerprint": cast, "dtype": "bfloat16"})
    assert "unembedding" not in str(caught.value)


def test_a_fingerprint_without_a_part_does_not_fit() -> None:
    file = VectorFile(vectors(), header(fingerprint={}))
    with pytest.raises(UsageError, match="tokenizer_sha256 is not set in the file, bbbbbbbbbbbb…"):
        check_matches(file, PATH, **MODEL)


def test_the_run_that_made_the_vectors_fits() -> None:
    check_task(FILE, PATH, **RUN)


def test_a_template_fits_as_it_comes_back_from_its_file(tmp_path: Path) -> None:
    template = {"stops": ("\n", "."), "cue": "→"}
    save(tmp_path / "file", VectorFile(vectors(), header(template=template)))
    check_task(load(tmp_path / "file"), PATH, **{**RUN, "template": template})


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"method": "tv"}, "method is 'tv_m' in the file, 'tv' here"),
        ({"task": "inverse_upper"}, "task is 'forward_upper' in the file, 'inverse_upper' here"),
        ({"shots": 4}, "num_fewshot is 1 in the file, 4 here"),
        (
            {"template": {"doc_to_text": "{{x}}\n→", "chat": None, "gen": "A"}},
            "doc_to_text is 'Example: {{x}} →' in the file, '{{x}}\\n→' here; "
            "cue is '→' in the file, not set here; gen is not set in the file, 'A' here",
        ),
    ],
)
def test_another_run_is_refused_with_both_values(other: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_task(FILE, PATH, **{**RUN, **other})
    assert str(caught.value).startswith(f"my.safetensors does not fit the run: {message}. ")


def test_every_document_gets_its_own_vectors_in_any_order() -> None:
    found = vectors_for(FILE, PATH, [KEYS[2], KEYS[0], KEYS[2]])
    assert torch.equal(found, FILE.vectors[[2, 0, 2]])


def test_a_reusable_vector_serves_any_document() -> None:
    file = VectorFile(vectors(1), header(documents=None))
    found = vectors_for(file, PATH, ["never", "seen"])
    assert torch.equal(found, file.vectors[[0, 0]])


def test_documents_without_a_vector_are_counted_and_shown() -> None:
    with pytest.raises(UsageError, match=r"3 documents.*none for 2 of the 3.*such as other"):
        vectors_for(FILE, PATH, [KEYS[0], "other", "another"])
