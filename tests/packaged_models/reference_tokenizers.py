"""Slow, plain tokenizers that share no code with the library's, to compare it with.

Both follow llama.cpp, the reference reader of GGUF files, and work from the metadata of such a
file alone. They do not look for control tokens in the text.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import regex

Encode = Callable[[str], list[int]]

_GPT2_PIECES = regex.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)
_SPACE = "▁"


def byte_alphabet() -> list[str]:
    """GPT-2's printable character of every byte: its own where it has one, else from U+0100 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return [
        chr(byte) if byte in printable else chr(0x100 + others.index(byte)) for byte in range(256)
    ]


def byte_level_bpe(fields: Mapping[str, Any]) -> Encode:
    """Byte-level BPE with the ``smollm`` pre-tokenizer: each digit apart, then GPT-2's pieces."""
    ids = {token: index for index, token in enumerate(fields["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    rank = {pair: index for index, pair in enumerate(merges)}
    alphabet = byte_alphabet()

    def encode(text: str) -> list[int]:
        found = []
        for part in regex.split(r"(\p{N})", text):
            for piece in _GPT2_PIECES.findall(part):
                symbols = [alphabet[byte] for byte in piece.encode()]
                while (at := _best(symbols, lambda left, right: rank.get((left, right)))) >= 0:
                    symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
                found += [ids[symbol] for symbol in symbols]
        return found

    return encode


def sentencepiece_bpe(fields: Mapping[str, Any]) -> Encode:
    """User-defined tokens first, the longest before all; between them, pairs by best score."""
    tokens = fields["tokenizer.ggml.tokens"]
    scores = fields["tokenizer.ggml.scores"]
    types = fields["tokenizer.ggml.token_type"]
    ids = {token: index for index, token in enumerate(tokens)}
    cost = {t: -s for t, s, kind in zip(tokens, scores, types, strict=True) if kind == 1}
    defined = [token for token, kind in zip(tokens, types, strict=True) if kind == 4]
    defined.sort(key=len, reverse=True)

    def encode_between(text: str) -> list[int]:
        symbols = list(text.replace(" ", _SPACE))
        while (at := _best(symbols, lambda left, right: cost.get(left + right))) >= 0:
            symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
        found = []
        for symbol in symbols:
            if symbol in cost:
                found.append(ids[symbol])
            else:
                found += [ids[f"<0x{byte:02X}>"] for byte in symbol.encode()]
        return found

    def encode(text: str) -> list[int]:
        for token in defined:
            if token in text:
                first, rest = text.split(token, 1)
                return [*encode(first), ids[token], *encode(rest)]
        return encode_between(text)

    return encode


def _best(symbols: Sequence[str], cost: Callable[[str, str], float | None]) -> int:
    """Where the cheapest neighbours that may be joined stand, the leftmost of equals; else -1."""
    costs = [cost(left, right) for left, right in itertools.pairwise(symbols)]
    allowed = [(value, at) for at, value in enumerate(costs) if value is not None]
    return min(allowed)[1] if allowed else -1


_FRAGMENTS = [
    *("\n", "\n\n", "\n\n3", "3\n\n\n", "\n 7", " ", "  ", "   ", "\t", "\t\t", "\r\n", "\u00a0"),
    *(" " * 40, "\n" * 40, "\t" * 33, "0", "12345", "3.14", "2²", "½", "Ⅷ", "१२३", "10€"),
    *("→", " →", " → ", "é", "à la", "œuvre", "Ünïcödé", "żółć", "ß", "e\u0301", "ﬁ", "日本語"),
    *("한국어", "العربية", "क्षि", "Ω", "🙂", "👩‍👩‍👧", "🇫🇷", "don't", "I'LL", "'s", "''", "..."),
    *("Example:", " capital", "the", " The", "_x_", "://", "----", "CamelCase", "aaaaa", "ababab"),
    *("<b>", "</b>", "<table>", "\u200b", "\x00", "\x07", "\x7f", "\ud7ff", "\ue000", "\U0010ffff"),
]
_PLANES = [(0x20, 0x7E), (0xA0, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x3FFFF)]


def varied_texts(count: int, words: Sequence[str]) -> Iterator[str]:
    """Texts of five kinds in turn, the same at every call.

    Fragments that tokenizers trip over, words run together, sentences, random characters of all
    scripts, and long mixtures of very few characters. None holds SentencePiece's space sign,
    which no tokenizer of that kind can tell from a space.
    """
    draw = random.Random(0)
    for number in range(count):
        match number % 5:
            case 0:
                text = "".join(draw.choices(_FRAGMENTS, k=draw.randint(1, 12)))
            case 1:
                text = "".join(draw.choices(words, k=draw.randint(1, 8)))
            case 2:
                text = " ".join(draw.choices(words, k=draw.randint(1, 12))) + draw.choice("?!.\n")
            case 3:
                planes = draw.choices(_PLANES, k=draw.randint(1, 15))
                text = "".join(chr(draw.randint(*plane)) for plane in planes)
            case _:
                text = "".join(draw.choices("ab \n→3é'", k=draw.randint(1, 40)))
        yield text.replace(_SPACE, " ")
