import codecs
from pathlib import Path

import pytest

from harness_ext.compare.text import (
    Places,
    clip,
    clip_start,
    count,
    listed,
    number,
    spelled,
    visible,
    write,
)
from harness_ext.errors import UsageError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Größe → 3 😀", "Größe → 3 😀"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("two\nlines", "two\nlines"),
        ("\u202ereversed", "\\u202ereversed"),
        ("a\x00b\x1b[31m\t", "a\\u0000b\\u001b[31m\\u0009"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("half \ud83d", "half \\ud83d"),
        ("line\u2028paragraph\u2029", "line\\u2028paragraph\\u2029"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_characters_that_cannot_be_seen_are_written_as_codes(text: str, shown: str) -> None:
    assert visible(text) == shown
    shown.encode("utf-8")


def test_long_text_keeps_its_start_and_its_end() -> None:
    assert clip("short", 10) == "short"
    assert clip("0123456789", 10) == "0123456789"
    assert clip("0123456789x", 10) == "012345…89x"
    assert clip_start("0123456789x", 5) == "…789x"


@pytest.mark.parametrize(
    ("value", "signed", "text"),
    [(0.5, False, "0.50"), (-0.004, True, "0.00"), (-0.25, False, "−0.25"), (0.1, True, "+0.10")],
)
def test_numbers_have_a_real_minus_and_no_negative_zero(
    value: float, signed: bool, text: str
) -> None:
    assert number(value, signed=signed) == text


def test_counts_and_lists_read_as_sentences() -> None:
    assert [count(1, "row"), count(2000, "row")] == ["1 row", "2,000 rows"]
    assert listed([3, 3, 1]) == "3, 1"
    assert listed(range(8), most=2) == "0, 1 and 6 more"


def test_files_are_named_from_the_given_folder_on() -> None:
    places = Places([Path("/home/anna/results"), Path("/home/anna/results/new")])
    assert places.name(Path("/home/anna/results/a/results.json")) == "results/a/results.json"
    assert places.name(Path("/home/anna/results/new/results.json")) == "new/results.json"
    assert places.name(Path("/srv/other/results.json")) == "results.json"
    assert places.name(Path("runs/results.json")) == "runs/results.json"


def test_text_names_no_folder_of_the_machine() -> None:
    places = Places([Path("/home/anna/results")])
    assert places.in_text("see /home/anna/results/a.json: broken") == "see results/a.json: broken"
    assert places.in_text("vectors=/srv/secret/v.safetensors") == "vectors=…/v.safetensors"
    assert places.in_text("C:\\Users\\anna\\model") == "…/model"
    for plain in ("https://example.org/a/b", "and/or", "1 / 2 / 3", "org/model", "\\n /x"):
        assert places.in_text(plain) == plain


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", b"-0.10-0.25 X>Y X=Y a... >= 1 \\u4e2d \\xe4"),
        ("latin-1", b"-0.10-0.25 X>Y X=Y a... >= 1 \\u4e2d \xe4"),
        ("utf-8", "−0.10–0.25 X→Y X↔Y a… ≥ 1 中 ä".encode()),
    ],
)
def test_what_an_encoding_lacks_is_spelled_out(encoding: str, shown: bytes) -> None:
    codecs.register_error("test.spelled", spelled)
    assert "−0.10–0.25 X→Y X↔Y a… ≥ 1 中 ä".encode(encoding, "test.spelled") == shown


def test_bytes_that_are_no_text_are_not_passed_over() -> None:
    codecs.register_error("test.spelled", spelled)
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("utf-8", "test.spelled")


def test_a_file_is_written_with_codes_for_half_characters(tmp_path: Path) -> None:
    write(tmp_path / "a.md", "– \ud800", "--output")
    assert (tmp_path / "a.md").read_text(encoding="utf-8") == "– \\ud800"


@pytest.mark.parametrize("place", ["missing/a.md", "."])
def test_a_file_that_cannot_be_written_is_named_with_its_option(tmp_path: Path, place: str) -> None:
    with pytest.raises(UsageError, match=f"^--markdown {tmp_path / place}: cannot be written"):
        write(tmp_path / place, "text", "--markdown")


def test_a_file_that_cannot_be_written_whole_keeps_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.html"
    write(path, "before", "--output")

    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError, match="No space left"):
        write(path, "after", "--output")
    assert path.read_text() == "before"
