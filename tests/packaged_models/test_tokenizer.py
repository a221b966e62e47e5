"""Tokenizers from tiny vocabularies, compared with plain ones written independently."""

from __future__ import annotations

import pytest

from harness_ext.packaged_models.tokenizer import build
from tests.packaged_models import gguf_models, reference_tokenizers

_WORDS = ["the", " the", " →", "abab", "aaaa", "aba", "Example:", " t", "<b>", "a  b", "é", "3"]


def test_byte_level_bpe_encodes_as_the_reference_does() -> None:
    fields = gguf_models.byte_level_fields()
    tokenizer = build(fields, max_length=128)
    reference = reference_tokenizers.byte_level_bpe(fields)
    for text in reference_tokenizers.varied_texts(1000, _WORDS):
        assert tokenizer.encode(text) == reference(text), repr(text)
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_sentencepiece_bpe_encodes_as_the_reference_does() -> None:
    fields = gguf_models.sentencepiece_fields()
    tokenizer = build(fields, max_length=128)
    reference = reference_tokenizers.sentencepiece_bpe(fields)
    for text in reference_tokenizers.varied_texts(1000, _WORDS):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert ids == reference(text), repr(text)
        assert tokenizer.decode(ids) == text


def test_a_blank_line_before_a_digit_is_one_token_and_digits_stand_alone() -> None:
    tokenizer = build(gguf_models.byte_level_fields(), max_length=128)
    assert tokenizer.tokenize("the\n\n34") == ["t", "he", "ĊĊ", "3", "4"]


def test_a_beginning_of_text_token_is_added_exactly_where_the_file_asks_for_it() -> None:
    without = build(gguf_models.byte_level_fields(), max_length=128)
    with_one = build(gguf_models.sentencepiece_fields(), max_length=128)
    assert without.bos_token_id not in without("the")["input_ids"]
    assert with_one("the")["input_ids"][0] == with_one.bos_token_id
    assert with_one("the", "the")["input_ids"].count(with_one.bos_token_id) == 2


def test_control_tokens_in_the_text_become_themselves_and_can_be_skipped() -> None:
    tokenizer = build(gguf_models.byte_level_fields(), max_length=128)
    ids = tokenizer.encode("<start>a<end>")
    assert ids == [1, *tokenizer.encode("a"), 2]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "a"


def test_the_chat_template_of_the_file_is_kept_and_none_is_invented() -> None:
    chat = build(gguf_models.byte_level_fields(), max_length=128)
    assert chat.chat_template == gguf_models.TEMPLATE
    assert build(gguf_models.sentencepiece_fields(), max_length=128).chat_template is None


@pytest.mark.parametrize(
    "fields", [gguf_models.byte_level_fields(), gguf_models.sentencepiece_fields()]
)
def test_offsets_of_every_token_span_the_characters_it_is_part_of(fields: dict) -> None:
    tokenizer = build(fields, max_length=128)
    text = "the é🙂 → x"
    encoding = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    ends = [-1] * len(text)
    for token, (start, end) in enumerate(encoding["offset_mapping"]):
        assert start < end
        for character in range(start, end):
            ends[character] = token
    assert -1 not in ends and ends == sorted(ends)
    arrow = text.index("→")
    assert tokenizer.decode(encoding["input_ids"][: ends[arrow] + 1]) == text[: arrow + 1]


def test_an_unknown_pre_tokenizer_is_refused_by_its_name() -> None:
    fields = {**gguf_models.byte_level_fields(), "tokenizer.ggml.pre": "llama-bpe"}
    with pytest.raises(NotImplementedError, match="llama-bpe"):
        build(fields, max_length=128)
