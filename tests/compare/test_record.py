from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness_ext.compare import record as recording
from harness_ext.compare.outputs import read_output
from harness_ext.compare.reading import read
from harness_ext.compare.record import anonymous, main, record
from harness_ext.errors import UsageError
from tests.compare.output import DATE, answered, write_output

TASKS = ("forward_upper", "bijection_upper")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The results file of a run of two tasks, with samples beside it."""
    return write_output(tmp_path / "out/tiny", answered(TASKS, lambda doc: doc["side"] == "x"))


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def answered_by_task(folder: Path) -> dict[str, int]:
    return {each.task: len(each.samples or ()) for each in read([folder]).evaluations}


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_a_run_goes_to_the_folder_of_its_cell(output: Path, tmp_path: Path) -> None:
    assert record([tmp_path / "out"], tmp_path / "to") == [tmp_path / "to/tiny/tv-0shot-seed1234"]
    assert files(tmp_path / "to") == [
        "tiny/tv-0shot-seed1234/results.json",
        "tiny/tv-0shot-seed1234/samples.jsonl",
    ]


def test_a_sample_becomes_one_small_row(output: Path, tmp_path: Path) -> None:
    record([output], tmp_path / "to")
    lines = (tmp_path / "to/tiny/tv-0shot-seed1234/samples.jsonl").read_text().split("\n")
    assert len(lines) == 4 + 8 + 1
    row = json.loads(lines[5])
    assert len(row.pop("doc_hash")) == 16
    assert row == {
        "task": "bijection_upper",
        "query": "A0",
        "target": "a0",
        "answer": " no → idea\u2028",
        "pair": "a0|A0",
        "answer_match": 0,
        "exact_match": 0,
    }


def test_the_results_file_is_kept_but_for_machine_and_user(output: Path, tmp_path: Path) -> None:
    edit(output, upper_git_hash="abc", git_hash="def", chat_template="and/or </s> a/b/c")
    before = json.loads(output.read_text())
    record([output], tmp_path / "to")
    after = json.loads((tmp_path / "to/tiny/tv-0shot-seed1234/results.json").read_text())
    for task in TASKS:
        assert before["configs"][task]["metadata"].pop("config_source")
    assert before["config"]["model_args"].pop("token")
    for name in ("upper_git_hash", "model_name_sanitized", "pretty_env_info"):
        assert before.pop(name)
    assert after.pop("pretty_env_info") == "PyTorch version: 2.13.0+cpu\nPython version: 3.11.7"
    before["model_name"] = "tiny"
    assert after == before


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/home/anna/models/my model", "my model"),
        ("/home/anna maria/m/", "m"),
        ("~anna/m", "m"),
        (r"C:\Users\Anna\m", "m"),
        (r"\\server\anna\m", "m"),
        ("pretrained=/home/anna/m,peft=~/x/lora", "pretrained=m,peft=lora"),
        ("org/model", "org/model"),
        ("https://anna.example/a/b", "https://anna.example/a/b"),
        ("/think", "/think"),
        ("Example: {{query}} →", "Example: {{query}} →"),
    ],
)
def test_of_absolute_paths_the_last_part_is_kept(output: Path, given: str, kept: str) -> None:
    arguments = {"deep": [{"pretrained": given}]}
    edit(output, config={"model": "hf", "fewshot_seed": 1, "model_args": arguments})
    config = anonymous(read_output(output).results)["config"]
    assert config["model_args"] == {"deep": [{"pretrained": kept}]}


@pytest.mark.parametrize(
    ("pretrained", "model"),
    [
        ("packaged:gemma-3-270m", "gemma-3-270m"),
        ("/root/.cache/taskvec/models/smollm2-135m", "smollm2-135m"),
        ("HuggingFaceTB/SmolLM2-135M", "HuggingFaceTB__SmolLM2-135M"),
        ("../../../etc", "etc"),
        ("./out/my model", "my_model"),
        ("..", None),
        ("org/naïve", None),
    ],
)
def test_a_model_is_named_after_what_was_pretrained(
    tmp_path: Path, pretrained: str, model: str | None
) -> None:
    answers = answered(TASKS, lambda doc: 1)
    output = write_output(tmp_path / "out", answers, "hf", 10, pretrained)
    if model is None:
        with pytest.raises(UsageError, match="cannot name a folder"):
            read_output(output)
    else:
        assert read_output(output).cell.folder == Path(model, "hf-10shot-seed1234")


def test_recording_again_replaces_the_cell(tmp_path: Path) -> None:
    write_output(tmp_path / "out", answered(["forward_upper"], lambda doc: 0, count=3))
    record([tmp_path / "out"], tmp_path / "to")
    write_output(tmp_path / "out", answered(TASKS, lambda doc: 1))
    record([tmp_path / "out"], tmp_path / "to")
    assert answered_by_task(tmp_path / "to") == {"forward_upper": 4, "bijection_upper": 8}
    assert len(files(tmp_path / "to")) == 2


def test_tasks_that_were_recorded_before_are_not_dropped(output: Path, tmp_path: Path) -> None:
    record([output], tmp_path / "to")
    later = write_output(tmp_path / "later", answered(["inverse_upper"], lambda doc: 1))
    other = write_output(tmp_path / "other", answered(["inverse_upper"], lambda doc: 1), "none")
    cell = tmp_path / "to/tiny/tv-0shot-seed1234"
    with pytest.raises(UsageError) as error:
        record([other, later], tmp_path / "to")
    assert f"{cell} would lose bijection_upper, forward_upper, recorded" in str(error.value)
    assert "Name the earlier runs too, or delete the folder" in str(error.value)
    assert answered_by_task(tmp_path / "to") == {"forward_upper": 4, "bijection_upper": 8}
    record([output, other, later], tmp_path / "to")
    assert set(answered_by_task(cell)) == {*TASKS, "inverse_upper"}


def test_a_recorded_cell_that_cannot_be_read_is_replaced(output: Path, tmp_path: Path) -> None:
    record([output], tmp_path / "to")
    recorded = tmp_path / "to/tiny/tv-0shot-seed1234/results.json"
    recorded.write_text(recorded.read_text()[:100])
    write_output(output.parent, answered(["forward_upper"], lambda doc: 1))
    record([output], tmp_path / "to")
    assert answered_by_task(tmp_path / "to") == {"forward_upper": 4}


def test_a_cell_whose_recording_was_broken_off_counts_as_not_recorded(
    output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record([output], tmp_path / "to")

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(recording, "write_whole", fail)
    with pytest.raises(KeyboardInterrupt):
        record([output], tmp_path / "to")
    assert answered_by_task(tmp_path / "to") == {}


def test_runs_of_one_cell_over_different_tasks_are_recorded_as_one(tmp_path: Path) -> None:
    for task in TASKS:
        write_output(tmp_path / "out" / task, answered([task], lambda doc: 1))
    assert record([tmp_path / "out"], tmp_path / "to") == [tmp_path / "to/tiny/tv-0shot-seed1234"]
    assert answered_by_task(tmp_path / "to") == {"bijection_upper": 8, "forward_upper": 4}


def test_a_run_that_is_named_twice_counts_once(output: Path, tmp_path: Path) -> None:
    assert record([output, tmp_path / "out"], tmp_path / "to") == [
        tmp_path / "to/tiny/tv-0shot-seed1234"
    ]


def test_two_runs_of_one_task_are_refused_by_name(output: Path, tmp_path: Path) -> None:
    other = write_output(tmp_path / "other", answered(TASKS, lambda doc: 1))
    with pytest.raises(
        UsageError, match="both runs of bijection_upper in tiny/tv-0shot-seed1234"
    ) as error:
        record([tmp_path / "out", other], tmp_path / "to")
    assert str(output) in str(error.value)
    assert str(other) in str(error.value)
    assert not (tmp_path / "to").exists()


def test_runs_of_different_cells_are_recorded_together(output: Path, tmp_path: Path) -> None:
    write_output(tmp_path / "out/none", answered(TASKS, lambda doc: 1), "none", 10)
    record([tmp_path / "out"], tmp_path / "to")
    cells = [path.name for path in sorted((tmp_path / "to/tiny").iterdir())]
    assert cells == ["none-10shot-seed1234", "tv-0shot-seed1234"]


def test_a_run_without_logged_samples_is_refused(output: Path, tmp_path: Path) -> None:
    (output.parent / f"samples_forward_upper_{DATE}.jsonl").unlink()
    with pytest.raises(UsageError, match=r"no samples of forward_upper.*--log_samples"):
        record([output], tmp_path / "to")


def test_samples_of_another_run_in_the_folder_are_left_alone(output: Path) -> None:
    stray = output.parent / "samples_forward_upper_2025-01-01T00-00-00.000001.jsonl"
    stray.write_text("{")
    assert len(read_output(output).samples["forward_upper"]) == 4


def test_tasks_with_different_shots_are_refused(output: Path, tmp_path: Path) -> None:
    edit(output, **{"n-shot": {"forward_upper": 0, "bijection_upper": 10}})
    with pytest.raises(UsageError, match="different numbers of shots"):
        record([output], tmp_path / "to")


def test_a_damaged_row_is_refused_by_its_place(output: Path, tmp_path: Path) -> None:
    path = output.parent / f"samples_forward_upper_{DATE}.jsonl"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(UsageError, match=r"forward_upper_\S+: line 4: cut off, or not JSON"):
        record([output], tmp_path / "to")


def test_what_is_recorded_reads_as_what_it_was_made_from(output: Path, tmp_path: Path) -> None:
    record([output], tmp_path / "to")
    before, after = (read([folder]).evaluations for folder in (output, tmp_path / "to"))
    assert [each.key for each in after] == [each.key for each in before]
    for one, other in zip(before, after, strict=True):
        assert one.samples and other.samples
        assert [replace(s, prompt=None) for s in one.samples] == list(other.samples)


def test_a_grid_names_the_method(output: Path, tmp_path: Path) -> None:
    config = json.loads(output.read_text())["config"]
    edit(output, config=config | {"bench": {"name": "my_tv"}})
    assert record([output], tmp_path / "to") == [tmp_path / "to/tiny/my_tv-0shot-seed1234"]


def test_dtypes_and_seeds_have_cells_of_their_own(output: Path, tmp_path: Path) -> None:
    config = json.loads(output.read_text())["config"]
    edit(output, config=config | {"model_dtype": "torch.bfloat16", "fewshot_seed": 3})
    to = tmp_path / "to"
    assert record([output], to) == [to / "tiny-bfloat16/tv-0shot-seed3"]


def test_the_command_prints_the_folders(
    output: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "out"), "--to", str(tmp_path / "to")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'to/tiny/tv-0shot-seed1234'}\n"
