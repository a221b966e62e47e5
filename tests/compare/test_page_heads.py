import base64
import json
import re
import struct
import zlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from safetensors.numpy import save_file

from harness_ext.compare.page.heads import FORMAT, read_heads
from tests.compare.page_data import HOSTILE, head_scores


def write(folder: Path, **changes: Any) -> Path:
    """What `taskvec heads` writes for 3 layers of 2 heads, in part."""
    folder.mkdir(parents=True, exist_ok=True)
    top = [{"layer": 2, "head": 1, "score": 5.0}]
    content = {
        "format": FORMAT,
        "model": "packaged:tiny",
        "command": "taskvec heads --tasks classify_tone",
        "tasks": {"classify_tone": {"top": {"tr": top, "tl": top, "ih": top}}},
        **changes,
    }
    scores = np.arange(6.0).reshape(3, 2)
    names = ("classify_tone/tr", "classify_tone/tl", "classify_tone/mean_logit", "induction")
    save_file(dict.fromkeys(names, scores), folder / "scores.safetensors")
    (folder / "scores.json").write_text(json.dumps(content))
    return folder


def test_scores_are_found_in_folders_at_any_depth(tmp_path: Path) -> None:
    write(tmp_path / "a" / "heads")
    (found,), problems = read_heads([tmp_path])
    assert problems == ()
    assert (found.model, found.command) == ("tiny", "taskvec heads --tasks classify_tone")
    assert [own.kind.name for own in found.maps] == [
        "Task recognition (TR)",
        "Task learning (TL)",
        "Induction (IH)",
    ]
    assert found.maps[0].best == [(2, 1, "5.00")]


def test_a_folder_named_twice_is_read_once_and_a_file_holds_none(tmp_path: Path) -> None:
    write(tmp_path / "heads")
    assert len(read_heads([tmp_path, tmp_path / "heads"])[0]) == 1
    assert read_heads([tmp_path / "heads" / "scores.json", tmp_path / "none"]) == ((), ())


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 99},
        {"tasks": {}},
        {"tasks": {"classify_tone": {}}},
        {"tasks": None},
        {"tasks": {"classify_tone": {"top": {"tr": [{"layer": 9, "head": 0}], "tl": []}}}},
        {"tasks": {"other": {"top": {}}}},
    ],
)
def test_what_is_not_as_it_should_be_is_named(tmp_path: Path, changes: dict[str, Any]) -> None:
    write(tmp_path, **changes)
    found, (problem,) = read_heads([tmp_path])
    assert found == ()
    assert problem.path == tmp_path / "scores.json" and problem.unused


@pytest.mark.parametrize("name", ["scores.json", "scores.safetensors"])
def test_damaged_and_missing_files_are_named(tmp_path: Path, name: str) -> None:
    write(tmp_path)
    (tmp_path / name).write_bytes(b"{")
    assert len(read_heads([tmp_path])[1]) == 1
    (tmp_path / "scores.safetensors").unlink()
    assert len(read_heads([tmp_path])[1]) == 1


def test_scores_that_are_not_finite_are_not_drawn(tmp_path: Path) -> None:
    write(tmp_path)
    broken = np.array([[np.nan, 1.0]])
    save_file({"classify_tone/tr": broken}, tmp_path / "scores.safetensors")
    assert "not finite" in str(read_heads([tmp_path])[1][0])


def test_a_map_shows_every_head_and_frames_the_top() -> None:
    own = head_scores().maps[0]
    drawing = ElementTree.fromstring(own.chart)
    assert drawing.findtext("title") == "Task recognition (TR) on classify_tone, layer by head"
    assert "layer 2 head 1: 5.00" in drawing.findtext("desc", "")
    assert [each.get("class") for each in drawing.iter("rect")] == ["frame outer", "frame"]
    pixels = decode(re.findall(r'base64,([^"]+)"', own.chart)[0])
    assert pixels.shape == (3, 2, 3)
    # The image's first row is the last layer, and its last head has the highest score.
    assert pixels[0, 1].tolist() == [0xFF, 0xE9, 0x45]
    assert pixels[2, 0].tolist() == [0x0B, 0x2A, 0x52]


def test_zero_is_white_where_scores_have_a_sign() -> None:
    own = head_scores().maps[1]
    assert own.scores[1, 0] == 0
    pixels = decode(re.findall(r'base64,([^"]+)"', own.chart)[0])
    assert pixels[1, 0].tolist() == [0xF7, 0xF7, 0xF7]


def test_hostile_names_stay_text_in_a_map() -> None:
    own = head_scores(HOSTILE, HOSTILE).maps[0]
    assert ElementTree.fromstring(own.chart).find(".//script") is None


def decode(data: str) -> np.ndarray:
    """The pixels of a PNG file as this package writes it."""
    png = base64.b64decode(data)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    columns, rows = struct.unpack(">II", png[16:24])
    (length,) = struct.unpack(">I", png[33:37])
    lines = np.frombuffer(zlib.decompress(png[41 : 41 + length]), np.uint8)
    return lines.reshape(rows, 1 + 3 * columns)[:, 1:].reshape(rows, columns, 3)
