"""What pictures of attention heads have in common."""

import subprocess
import sys

import pytest
from matplotlib.figure import Figure

from harness_ext.plots import LINES, file_of


def picture() -> Figure:
    figure = Figure()
    axes = figure.add_subplot()
    for line in LINES.values():
        axes.plot([0, 1], color=line.colour, linestyle=line.style, marker=line.marker)
    axes.set_title("a title")
    return figure


@pytest.mark.parametrize("form", ["svg", "png"])
def test_the_same_picture_is_the_same_file(form: str) -> None:
    data = file_of(picture(), form)
    assert data == file_of(picture(), form)


def test_an_svg_keeps_its_text_and_says_no_date() -> None:
    text = file_of(picture(), "svg").decode()
    assert ">a title</text>" in text
    assert "<dc:date>" not in text and "<dc:creator>" not in text


def test_no_model_is_needed_to_draw() -> None:
    code = "import sys, harness_ext.compare.heads; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
