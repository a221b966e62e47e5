from __future__ import annotations

import argparse

import pytest

from harness_ext.commands.numbers import count


@pytest.mark.parametrize("text", ["-1", "1.5", "x", ""])
def test_what_is_no_whole_number_is_refused_by_value(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"{text} is not a whole number ≥ 0"):
        count(text)


def test_whole_numbers_are_taken() -> None:
    assert [count(text) for text in ("0", "12")] == [0, 12]
