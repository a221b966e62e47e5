from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness_ext.cli import main
from harness_ext.compare import page
from tests.compare.output import answered, write_output

TASKS = ("forward_upper", "inverse_upper", "bijection_upper")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A steered run, ICL, and lm-eval's stock model, on one map."""
    folder = tmp_path / "runs"
    for method, shots, right in (("tv", 0, "x"), ("none", 10, "xy"), ("hf", 0, "")):
        answers = answered(TASKS, lambda doc, right=right: doc["side"] in right, count=12)
        write_output(folder / f"{method}{shots}", answers, method, shots)
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command; gives the status, and what is on stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        status = main(["leaderboard", *map(str, arguments)])
        return status, *capsys.readouterr()

    return call


def test_the_terminal_table_fits_80_columns(results: Path, run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, out, err = run(results)
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    for label in ("ICL (10)", "tv", "zero-shot, hf", "Bijection gaps, tiny"):
        assert label in out


def test_filters_and_order_reach_the_table(results: Path, run) -> None:
    _, out, _ = run(
        results, "--format", "csv", "--methods", "n*", "tv", "--tasks", "*_upper", "--models",
        "tiny", "--shots", 0, 10, "--seeds", 1234, "--metric", "answer_match", "--sort", "model",
    )  # fmt: skip
    lines = out.splitlines()[1:]
    assert {line.split(",")[1] for line in lines} == {"none", "tv"}
    assert {line.split(",")[6] for line in lines} == {"answer_match"}


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("board.md", "## Leaderboard"),
        ("board.csv", "model,method"),
        ("board.json", "{"),
        ("board.html", "<!doctype html>"),
        ("board.txt", "Leaderboard, "),
    ],
)
def test_the_ending_of_the_output_names_the_format(
    results: Path, run, tmp_path: Path, name: str, begins: str
) -> None:
    status, out, _ = run(results, "--output", tmp_path / name)
    assert (status, out) == (0, "")
    assert (tmp_path / name).read_text().lower().startswith(begins.lower())


def test_the_page_is_made_of_what_is_chosen(results: Path, run, monkeypatch) -> None:
    given = []
    monkeypatch.setattr(page, "render", lambda reading, *rest, **more: given.append(reading) or "")
    run(results, "--format", "html", "--methods", "tv")
    assert {each.method for each in given[0].evaluations} == {"tv"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "x.pdf"], "--output x.pdf: its ending names no format"),
        (["--output", "/nowhere/x.md"], "--output /nowhere/x.md: cannot be written"),
        (["--models", "huge"], "--models huge leaves nothing; there is: tiny"),
        (["--sort", "nope"], "--sort nope: no such column"),
        (["--metric", "bleu"], "--metric bleu: no task has it"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(
    results: Path, run, arguments: list[str], message: str
) -> None:
    status, out, err = run(results, *arguments)
    assert (status, out) == (2, "")
    assert message in err and err.count("\n") == 1


def test_a_full_disk_is_one_line_and_status_2(results: Path, run) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no device that is always full")
    status, out, err = run(results, "--format", "csv", "--output", "/dev/full")
    assert (status, out) == (2, "")
    said = "--output /dev/full: cannot be written (No space left on device)."
    assert err == f"taskvec: error: {said}\n"


@pytest.mark.parametrize("form", ["table", "csv", "markdown"])
def test_an_ascii_terminal_shows_the_table(results: Path, form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness_ext", "leaderboard", str(results), "--format", form],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode("ascii")
    assert "tiny" in text and "\\u" not in text
    assert form != "table" or "0.00-" in text


def test_a_closed_pipe_is_no_mistake(results: Path) -> None:
    command = f"{sys.executable} -m harness_ext leaderboard {results} --format csv | true"
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"], capture_output=True
    )
    assert (done.returncode, done.stderr) == (141, b"")


def test_nothing_usable_is_status_2(tmp_path: Path, run) -> None:
    status, _, err = run(tmp_path)
    assert status == 2
    assert str(tmp_path) in err and "nothing to show" in err


@pytest.mark.parametrize(("options", "expected"), [([], 0), (["--strict"], 3)])
def test_files_that_cannot_be_used_are_named_and_the_rest_is_shown(
    results: Path, run, options: list[str], expected: int
) -> None:
    (results / "results_half.json").write_text('{"results": {')
    status, out, err = run(results, *options)
    assert status == expected
    assert "tv" in out
    assert err.startswith(f"taskvec: {results}/results_half.json: cut off")


def test_all_there_is_strict_too(results: Path, run) -> None:
    assert run(results, "--strict")[0] == 0


def test_nothing_printed_acts_on_a_terminal(results: Path, run, tmp_path: Path) -> None:
    folder = results / "\x1b]0;title\x07evil\n"
    answers = answered(TASKS, lambda doc: 1, count=3)
    write_output(folder, answers, pretrained="\x1b[31m[red]|x")
    (folder / "results_broken.json").write_text("{\x1b")
    _, out, err = run(results)
    for text in (out, err):
        assert not any(ord(c) < 32 and c != "\n" for c in text)
    assert "[red]|x" in out and len(err.splitlines()) == 1


def test_files_cut_anywhere_never_end_in_a_traceback(results: Path, run) -> None:
    rng = random.Random(0)
    paths = [path for path in sorted(results.rglob("*")) if path.is_file()]
    whole = {path: path.read_bytes() for path in paths}
    for number in range(60):
        path = paths[number % len(paths)]
        data = bytearray(whole[path])
        if number % 2:
            data = data[: rng.randrange(len(data))]
        else:
            for _ in range(5):
                data[rng.randrange(len(data))] = rng.choice(b'"{}[]:,0123456789nul')
        path.write_bytes(data)
        status, out, _ = run(results, "--format", "json")
        assert status in (0, 2)
        assert status == 2 or json.loads(out)["rows"]
        path.write_bytes(whole[path])


def test_parts_replaced_by_anything_never_end_in_a_traceback(results: Path, run) -> None:
    rng = random.Random(1)
    path = next(results.glob("tv0/results_*.json"))
    whole = json.loads(path.read_text())

    def places(value: object, keys: tuple = ()):
        yield keys
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from places(inner, (*keys, key))

    for keys in [each for each in places(whole) if each]:
        changed = json.loads(json.dumps(whole))
        inner = changed
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = rng.choice([None, [], {}, "x", -1, 1e308, True, [[1]], {"a": 1}])
        path.write_text(json.dumps(changed))
        for form in ("json", "table"):
            assert run(results, "--format", form)[0] in (0, 2), keys


def test_sample_fields_replaced_by_anything_never_end_in_a_traceback(results: Path, run) -> None:
    rng = random.Random(2)
    path = next(results.glob("tv0/samples_bijection_upper*"))
    whole = [json.loads(line) for line in path.read_text().rstrip("\n").split("\n")]
    for name in [*whole[0], *(("doc", inner) for inner in whole[0]["doc"])]:
        rows = json.loads(json.dumps(whole))
        for row in rows:
            place, key = (row["doc"], name[1]) if isinstance(name, tuple) else (row, name)
            place[key] = rng.choice([None, [], {}, "x", -1, 7.5, 1e308, True, float("nan")])
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        for form in ("json", "table"):
            assert run(results, "--format", form)[0] in (0, 2), name


def test_no_torch_and_no_lm_eval_are_imported(results: Path) -> None:
    code = (
        "import sys; from harness_ext.cli import main; "
        f"main(['leaderboard', {str(results)!r}]); "
        "print([m for m in ('torch', 'lm_eval', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_folder_that_is_given_for_its_heads_is_shown_and_no_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heads = Path(__file__).parents[2] / "results/heads/smollm2-135m"
    write_output(tmp_path / "out", answered(["forward_upper"], lambda doc: 1))
    page = tmp_path / "board.html"
    assert main(["leaderboard", str(tmp_path / "out"), str(heads), "--output", str(page)]) == 0
    assert "no results of lm-eval" not in capsys.readouterr().err
    assert "Attention heads" in page.read_text()
    assert main(["leaderboard", str(tmp_path / "out"), str(heads), "--format", "csv"]) == 0
    assert "no results of lm-eval" in capsys.readouterr().err
