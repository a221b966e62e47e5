from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness_ext.compare.heads import main
from harness_ext.compare.heads_runs import ICL, ZERO_SHOT, Arm
from tests.compare.heads_output import row, write

KINDS, SHARES = ("tr", "tl", "random"), (0.01, 0.03, 0.1)
TASK = "classify_sentiment"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Two models at three shares of heads."""
    arms = [Arm(kind, fraction=share) for kind in KINDS for share in SHARES]
    rows = [row(TASK, 0, arm, [1, 0, 1, 0]) for arm in (*arms, ZERO_SHOT, ICL)]
    for model in ("one", "two"):
        write(tmp_path, rows, model)
    return tmp_path


def test_the_picture_is_the_same_each_time_and_names_what_it_shows(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(recorded)]) == 0
    path = recorded / "fraction.svg"
    assert capsys.readouterr().out == f"{path}\n"
    first = path.read_bytes()
    assert main([str(recorded)]) == 0
    assert path.read_bytes() == first
    texts = {"".join(text.itertext()) for text in ElementTree.fromstring(first).iter()}
    for text in (
        "Accuracy by the share of heads added to a zero-shot prompt",
        "share of heads added, % (number of heads)",
        "share of right answers",
        "one",
        "two",
        f"{TASK}, 1 seed",
        "task recognition (TR)",
        "random, in the layers of TR",
        "ICL (8)",
        "zero-shot",
        "10",
        "(10)",
    ):
        assert text in texts


@pytest.mark.parametrize("arms", [[], [Arm("tr")]])
def test_a_folder_without_a_curve_is_named_with_what_to_run(
    tmp_path: Path, arms: list[Arm], capsys: pytest.CaptureFixture[str]
) -> None:
    if arms:
        write(tmp_path, [row(TASK, 0, arm, [1, 0]) for arm in arms])
    assert main([str(tmp_path)]) == 1
    assert "--plan fraction" in capsys.readouterr().err
    assert not (tmp_path / "fraction.svg").exists()


def test_a_row_that_cannot_be_used_is_named_without_a_traceback(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (recorded / "two.jsonl").open("a") as file:
        file.write('{"key": ')
    assert main([str(recorded)]) == 1
    assert "two.jsonl, line 12: cut off" in capsys.readouterr().err


def test_tables_and_picture_load_no_model_library() -> None:
    code = (
        "import sys, harness_ext.compare.heads\n"
        "sys.exit(bool({'torch', 'transformers', 'lm_eval'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
