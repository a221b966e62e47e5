"""The findings on a task as a file, by which an interrupted run goes on."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

from harness_ext.commands.heads_store import load, path_of, save
from harness_ext.errors import UsageError
from tests.commands.test_heads_claims import findings

MADE = {"arguments": {"demos": 4}, "fingerprint": {"weights_sha256": "ab"}}


def test_findings_come_back_as_they_were(tmp_path: Path) -> None:
    found = findings("mine/a")
    save(tmp_path, MADE, found)
    read = load(tmp_path, MADE, "mine/a")
    assert read is not None
    one, other = ({**vars(own), "scores": None} for own in (found, read))
    assert one == other
    assert list(read.scores) == list(found.scores)
    assert all(torch.equal(read.scores[name], own) for name, own in found.scores.items())


@pytest.mark.parametrize("name", ["arguments", "fingerprint"])
def test_findings_of_other_settings_count_as_none(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, MADE, findings("mine"))
    assert load(tmp_path, {**MADE, name: {}}, "mine") is None
    assert load(tmp_path, MADE, "other") is None
    assert not caplog.messages


@pytest.mark.parametrize("damage", ["cut", "changed", "foreign", "empty"])
def test_a_file_that_is_damaged_or_foreign_is_named_and_counts_as_none(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, MADE, findings("mine"))
    path = path_of(tmp_path, "mine")
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut": data[:-3],
            "changed": data[:-3] + b"abc",
            "foreign": b"my own notes, long enough for a header",
            "empty": b"",
        }[damage]
    )
    with caplog.at_level(logging.WARNING):
        assert load(tmp_path, MADE, "mine") is None
    (message,) = caplog.messages
    assert message.startswith(f"{path} is damaged, or not of `taskvec heads`")


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    path = path_of(tmp_path, "mine")
    path.mkdir()
    with pytest.raises(UsageError, match=f"{path}, where .* cannot be read: Is a directory"):
        load(tmp_path, MADE, "mine")
