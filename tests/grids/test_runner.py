"""Grids against lm-eval's evaluator asked for each cell by itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
from transformers import AutoModelForCausalLM

from harness_ext.compare.reading import read
from harness_ext.errors import UsageError
from harness_ext.grids import runner
from harness_ext.grids.grid import method_name
from tests.grids.conftest import Bench, contents


def loads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collects what is loaded from now on."""
    found: list[Any] = []
    load = runner._load
    monkeypatch.setattr(runner, "_load", lambda *args: found.append(args) or load(*args))
    return found


def results(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("results_*.json")
    return json.loads(path.read_text())


def samples(folder: Path) -> list[dict[str, Any]]:
    (path,) = folder.glob("samples_*.jsonl")
    return [json.loads(line) for line in path.read_text().split("\n") if line]


@pytest.mark.parametrize(("method", "shots"), [("none", 2), ("tv", 0), ("tv_ms", 2), ("tr", 0)])
def test_a_cell_is_what_lm_eval_says_when_it_is_asked_for_that_alone(
    bench: Bench, folder: Path, tasks_folder: Path, tmp_path: Path, method: str, shots: int
) -> None:
    own = {"average": 3} if method == "tr" else {}
    steering = {} if method == "none" else {"dev": 2, "demos": 3, **own}
    typed = ",".join([method, *(f"{name}={value}" for name, value in steering.items())])
    # Others of the task run before and after it on the same loaded model.
    assert bench("--shots", "0", "2", "--seeds", "5", methods=f"tv,dev=3,demos=3 {typed}") == 0
    seed = {} if method == "none" else {"seed": 5}
    alone = simple_evaluate(
        "taskvec-hf",
        model_args={"pretrained": str(folder), "method": method, **steering, **seed},
        tasks=["forward_upper3"],
        num_fewshot=shots,
        limit=4,
        batch_size=4,
        task_manager=TaskManager(include_path=str(tasks_folder), include_defaults=False),
        fewshot_random_seed=5,
    )
    name = method_name({"method": method, **steering})
    cell = tmp_path / f"{folder.name}/{name}-{shots}shot-seed5/forward_upper3"
    found = results(cell)
    assert found["results"]["forward_upper3"] == alone["results"]["forward_upper3"]
    assert found["config"]["steering"] == alone["config"]["steering"]
    for name in ("filtered_resps", "doc_hash", "prompt_hash", "target_hash"):
        assert [row[name] for row in samples(cell)] == [
            row[name] for row in alone["samples"]["forward_upper3"]
        ]


def test_a_model_is_loaded_once_for_all_its_cells(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = loads(monkeypatch)
    assert bench("--shots", "0", "1", tasks="forward_upper3 forward_echo") == 0
    assert len(found) == 1


def test_what_is_finished_is_not_run_again(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench() == 0
    before, found = contents(tmp_path), loads(monkeypatch)
    assert bench() == 0
    assert contents(tmp_path) == before
    assert found == []


def test_only_what_is_missing_or_damaged_is_run(bench: Bench, tmp_path: Path) -> None:
    assert bench("--shots", "0", "1") == 0
    before = contents(tmp_path)
    (gone, *_), (damaged, *_) = (
        sorted(tmp_path.glob(f"*/{name}*-0shot*/*/results_*.json")) for name in ("none", "tv")
    )
    gone.unlink()
    damaged.write_text(damaged.read_text()[:100])
    assert bench("--shots", "0", "1") == 0
    after = contents(tmp_path)
    same = {name for name in before if after.get(name) == before[name]}
    assert {name.split("/")[1] for name in same} == {
        "none-1shot-seed1234", "tv,demos=3,dev=2-1shot-seed1234",
    }  # fmt: skip
    assert len(after) == len(before)


@pytest.mark.parametrize("cut", ["results", "samples"])
def test_a_cell_whose_files_were_cut_off_is_named_and_run_again(
    bench: Bench, tmp_path: Path, cut: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(methods="none") == 0
    (path,) = tmp_path.rglob(f"{cut}_*")
    path.write_text(path.read_text()[:-200])
    assert bench(methods="none") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "is damaged and evaluated again" in said
    assert not read([tmp_path]).problems


def test_files_that_are_no_cell_are_refused_and_kept(bench: Bench, tmp_path: Path) -> None:
    assert bench(methods="none") == 0
    (results_path,) = tmp_path.rglob("results_*.json")
    notes = results_path.with_name("notes.txt")
    notes.write_text("mine")
    with pytest.raises(UsageError, match=r"holds notes.txt, which `taskvec bench` did not write"):
        bench("--overwrite", methods="none")
    assert notes.read_text() == "mine"
    notes.unlink()
    plain = json.loads(results_path.read_text())
    del plain["config"]["bench"]
    results_path.write_text(json.dumps(plain))
    with pytest.raises(UsageError, match="was not written by `taskvec bench`"):
        bench(methods="none")
    assert bench("--overwrite", methods="none") == 0


def test_other_weights_in_the_same_folder_make_another_cell(
    bench: Bench, folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    grid = ("--models", str(copy), "--output_path", str(tmp_path / "out"))
    assert bench(*grid, methods="none") == 0
    model = AutoModelForCausalLM.from_pretrained(copy)
    with torch.no_grad():
        model.get_output_embeddings().weight += 1
    model.save_pretrained(copy)
    with pytest.raises(UsageError, match="weights pretrained is '"):
        bench(*grid, methods="none")


def test_other_words_in_a_task_make_another_cell(
    bench: Bench, tasks_folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "tasks"
    shutil.copytree(tasks_folder, copy)
    for path in copy.glob("*.yaml"):
        path.write_text(path.read_text().replace(str(tasks_folder), str(copy)))
    grid = ("--include_path", str(copy), "--output_path", str(tmp_path / "out"))
    assert bench(*grid, methods="none") == 0
    words = copy / "upper3.jsonl"
    words.write_text(words.read_text().replace("AB", "XY"))
    with pytest.raises(UsageError, match="task_sha256 is"):
        bench(*grid, methods="none")


def test_saved_vectors_are_run_with_every_seed(
    bench: Bench, folder: Path, tasks_folder: Path, tmp_path: Path
) -> None:
    simple_evaluate(
        "taskvec-hf",
        model_args={
            "pretrained": str(folder),
            "average": 3,
            "dev": 2,
            "demos": 3,
            "save_vectors": str(tmp_path / "vectors"),
        },
        tasks=["forward_upper3"],
        limit=2,
        task_manager=TaskManager(include_path=str(tasks_folder), include_defaults=False),
    )
    method = f"tv,vectors={tmp_path / 'vectors'}"
    out = ("--output_path", str(tmp_path / "out"))
    assert bench("--seeds", "1", "2", *out, methods=method) == 0
    assert {each.seed for each in read([tmp_path / "out"]).evaluations} == {1, 2}


def test_a_cell_of_another_configuration_is_refused_and_kept(bench: Bench, tmp_path: Path) -> None:
    assert bench() == 0
    before = contents(tmp_path)
    with pytest.raises(UsageError, match=r"limit is 4 there and 3 here.*--overwrite"):
        bench("--limit", "3")
    assert contents(tmp_path) == before
    assert bench("--limit", "3", "--overwrite") == 0
    assert {len(each.samples or ()) for each in read([tmp_path]).evaluations} == {3}


def test_a_seed_sets_the_draws_of_episodes_and_the_few_shot_examples(
    bench: Bench, folder: Path, tmp_path: Path
) -> None:
    assert bench("--shots", "2", "--seeds", "3", "4") == 0
    prompts = []
    for seed in (3, 4):
        cell = tmp_path / f"{folder.name}/tv,demos=3,dev=2-2shot-seed{seed}/forward_upper3"
        config = results(cell)["config"]
        assert config["fewshot_seed"] == config["steering"]["arguments"]["seed"] == seed
        prompts.append([row["arguments"]["gen_args_0"]["arg_0"] for row in samples(cell)])
    assert prompts[0] != prompts[1]


def test_a_dry_run_shows_the_grid_and_loads_no_model(
    bench: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = loads(monkeypatch)
    assert bench("--dry-run", "--seeds", "1", "2") == 0
    assert "4 of 4 cells are left, of at most 32 prompts: 16 tested, 12 that" in " ".join(
        capsys.readouterr().out.split()
    )
    assert found == [] and not contents(tmp_path)


def test_a_place_that_cannot_be_written_to_is_found_before_a_model_loads(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = loads(monkeypatch)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file is no folder that can be written to"):
        bench("--output_path", str(tmp_path / "file/runs"))
    assert found == []


def test_cells_are_read_as_results_like_any_others(
    bench: Bench, folder: Path, tmp_path: Path
) -> None:
    assert bench() == 0
    reading = read([tmp_path])
    assert not reading.problems
    assert {(each.model, each.method, each.seed) for each in reading.evaluations} == {
        (folder.name, "none", 1234),
        (folder.name, "tv", 1234),
    }
