"""Tokenizers built from what a GGUF file says: vocabulary, merges or scores, and token types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

# Token types of the GGUF format; the others need no care here.
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4

# SentencePiece writes a space inside a token as this character.
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"


def build(fields: Mapping[str, Any], max_length: int) -> PreTrainedTokenizerFast:
    """The tokenizer a GGUF file describes, with its special tokens and chat template.

    Args:
        fields: the file's metadata, by key.
        max_length: tokens the model can take, kept as ``model_max_length``.

    Raises:
        NotImplementedError: the file names a tokenizer or pre-tokenizer this module does not know.
    """
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    kind = fields["tokenizer.ggml.model"], fields.get("tokenizer.ggml.pre")
    if kind == ("gpt2", "smollm"):
        backend = byte_level_bpe(tokens, fields["tokenizer.ggml.merges"])
    elif kind == ("llama", "default"):
        backend = sentencepiece_bpe(
            tokens,
            fields["tokenizer.ggml.scores"],
            fields["tokenizer.ggml.token_type"],
            unknown=tokens[fields["tokenizer.ggml.unknown_token_id"]],
        )
    else:
        raise NotImplementedError(f"no tokenizer for GGUF model and pre-tokenizer {kind}")
    _add_matched_tokens(backend, tokens, fields["tokenizer.ggml.token_type"])

    named = {
        role: tokens[fields[f"tokenizer.ggml.{key}_token_id"]]
        for role, key in [
            ("bos_token", "bos"),
            ("eos_token", "eos"),
            ("unk_token", "unknown"),
            ("pad_token", "padding"),
        ]
    }
    if fields["tokenizer.ggml.add_bos_token"]:
        bos = named["bos_token"]
        backend.post_processor = TemplateProcessing(
            single=f"{bos}:0 $A:0",
            pair=f"{bos}:0 $A:0 {bos}:1 $B:1",
            special_tokens=[(bos, fields["tokenizer.ggml.bos_token_id"])],
        )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
        **named,
    )
    tokenizer.chat_template = fields.get("tokenizer.chat_template")
    return tokenizer


def byte_level_bpe(tokens: Sequence[str], merges: Sequence[str]) -> Tokenizer:
    """Byte-level BPE with the ``smollm`` pre-tokenizer of llama.cpp.

    Every digit is split off first; what lies between goes through GPT-2's pattern. The order
    matters: in ``"\\n\\n3"`` the blank line stays one piece, where GPT-2's pattern on the whole
    would keep its last newline apart.

    A byte that is no token vanishes, as in llama.cpp. SmolLM2 lacks those of six control
    characters and of U+40000 to U+BFFFF, where Unicode has no characters yet.

    Args:
        tokens: vocabulary in id order, bytes written with GPT-2's printable alphabet.
        merges: ``"left right"``, the strongest first.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    pairs: list[tuple[str, str]] = []
    for merge in merges:
        left, right = merge.split(" ")
        pairs.append((left, right))
    tokenizer = Tokenizer(models.BPE(vocab=_ids(tokens), merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def sentencepiece_bpe(
    tokens: Sequence[str], scores: Sequence[float], types: Sequence[int], unknown: str
) -> Tokenizer:
    """SentencePiece's BPE: the adjacent pair whose union scores best is joined first.

    A character outside the vocabulary becomes its UTF-8 bytes. ``SPACE`` in the text itself
    cannot be told from a space afterwards.

    Args:
        tokens: vocabulary in id order, spaces inside written as ``SPACE``.
        scores: one per token; only normal tokens are ever joined.
        types: GGUF token types, one per token.
        unknown: the token for what even bytes do not cover.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers

    tokenizer = Tokenizer(
        models.BPE(
            vocab=_ids(tokens),
            merges=merges_from_scores(tokens, scores, types),
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return tokenizer


def merges_from_scores(
    tokens: Sequence[str], scores: Sequence[float], types: Sequence[int]
) -> list[tuple[str, str]]:
    """Every way to join two normal tokens into a third, best score of the third first."""
    ids = {
        token: index
        for index, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind == NORMAL
    }
    merges: list[tuple[str, str]] = []
    for token in sorted(ids, key=lambda token: (-scores[ids[token]], ids[token])):
        splits = ((token[:cut], token[cut:]) for cut in range(1, len(token)))
        known = [(left, right) for left, right in splits if left in ids and right in ids]
        # Two ways to one token rank alike; in id order, as Hugging Face's own conversions have it.
        merges += sorted(known, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
    return merges


def _ids(tokens: Sequence[str]) -> dict[str, int]:
    return {token: index for index, token in enumerate(tokens)}


def _add_matched_tokens(tokenizer: Tokenizer, tokens: Sequence[str], types: Sequence[int]) -> None:
    """Have control and user-defined tokens found in the text before anything else is done to it."""
    from tokenizers import AddedToken

    tokenizer.add_tokens(
        [
            AddedToken(token, special=kind == CONTROL, normalized=False)
            for token, kind in zip(tokens, types, strict=True)
            if kind in (CONTROL, USER_DEFINED)
        ]
    )
