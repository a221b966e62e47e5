"""`taskvec heads`, run on a tiny model and small tasks."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks import TaskManager
from lm_eval.tasks import manager as manager_module
from safetensors.torch import load_file

from harness_ext import cli
from harness_ext.analysis.explained import explained
from harness_ext.commands import heads_measure
from harness_ext.commands.heads_measure import differences
from harness_ext.config import parse_model_args
from harness_ext.heads.select import top_heads
from harness_ext.lm import TaskVectorLM
from harness_ext.methods import Bench
from harness_ext.methods.head_scores import read_heads
from harness_ext.steering.anatomy import dissect
from harness_ext.steering.prompts import PromptEncoder
from harness_ext.steering.task_context import TaskContext
from tests.lm.conftest import TASKS, Results
from tests.models import save_tiny

WORDS, ECHO = "forward_upper3", "forward_echo"
SETTINGS = "demos=4,average=5,head_fraction=0.2"
KINDS = ("tr", "tl", "ih")
SCORES = ("tr", "tl", "label_logit", "mean_logit")


@dataclass(frozen=True)
class Run:
    """A run's folder, what it printed, and what scores.json says."""

    folder: Path
    printed: str
    found: dict[str, Any]


@pytest.fixture(scope="module")
def run(folder: Path, tasks_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run on two tasks."""
    out = tmp_path_factory.mktemp("out") / "new" / "folder"
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        assert cli.main(arguments(folder, tasks_folder, out)) == 0
    return Run(out, stream.getvalue(), json.loads((out / "scores.json").read_text()))


def arguments(
    model: Path, tasks: Path, out: Path, names: str = f"{WORDS},{ECHO}", settings: str = SETTINGS
) -> list[str]:
    return [
        *("heads", "--tasks", names, "--include_path", str(tasks), "--output_path", str(out)),
        *("--model_args", f"pretrained={model},{settings}"),
    ]


# ---- what is found ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_top_heads_are_those_that_an_evaluation_takes(
    run: Run, folder: Path, evaluate: Callable[..., Results], kind: str
) -> None:
    given = {"layer": 1, "strength": 1, "demos": 4, "average": 5, "head_fraction": 0.2}
    lm = TaskVectorLM(pretrained=str(folder), method=kind, **given)
    results = evaluate(lm, WORDS, ECHO, limit=1)
    for task in (WORDS, ECHO):
        record = results["config"]["steering"]["tasks"][task]
        top = run.found["tasks"][task]["top"][kind]
        assert [[each["layer"], each["head"]] for each in top] == record["heads"]
        assert [each["score"] for each in top] == pytest.approx(record["head_scores"], abs=1e-4)


def test_the_scores_file_holds_every_score_of_every_task(run: Run) -> None:
    scores = load_file(run.folder / "scores.safetensors")
    names = {f"{task}/{score}" for task in (WORDS, ECHO) for score in SCORES}
    assert scores.keys() == names | {"induction"}
    assert all(tensor.shape == (4, 4) and tensor.isfinite().all() for tensor in scores.values())
    for task in (WORDS, ECHO):
        for score, name in zip((*SCORES, "ih"), (*SCORES, "induction"), strict=True):
            tensor = scores[name if name == "induction" else f"{task}/{name}"]
            top = run.found["tasks"][task]["top"][score]
            assert [(each["layer"], each["head"]) for each in top] == top_heads(tensor, 0.2)
    data = (run.folder / "scores.safetensors").read_bytes()
    assert run.found["scores_sha256"] == hashlib.sha256(data).hexdigest()


def test_it_says_what_made_it(run: Run, folder: Path) -> None:
    assert run.found["model"] == str(folder)
    assert run.found["fingerprint"]["architecture"] == "LlamaForCausalLM"
    assert run.found["arguments"] == {
        "head_fraction": 0.2,
        "squared": False,
        "demos": 4,
        "queries": 1,
        "average": 5,
        "cue": "→",
        "seed": 0,
    }
    assert run.found["command"].startswith(f"taskvec heads --tasks {WORDS},{ECHO}")
    assert run.found["versions"]["torch"] == torch.__version__


def test_attention_at_the_cue_sums_to_one(run: Run) -> None:
    for task in (WORDS, ECHO):
        masses = run.found["tasks"][task]["attention_at_cue"]
        assert masses.keys() == {*KINDS, "all"}
        for mass in masses.values():
            assert sum(mass.values()) == pytest.approx(1, abs=1e-4)
            assert all(part > 0 for part in mass.values())


def test_the_vector_is_explained_from_the_first_head_on(run: Run) -> None:
    found = run.found["tasks"][WORDS]
    for kind in KINDS:
        first = min(head["layer"] for head in found["top"][kind])
        for values in found["explained_by_layer"][kind].values():
            assert [value is None for value in values] == [layer < first for layer in range(4)]
    assert found["label_geometry"]["layer"] == max(head["layer"] for head in found["top"]["tr"])
    assert len(found["task_vector_norm_by_layer"]) == 4


def test_tasks_are_compared_by_both_kinds_of_scores(run: Run) -> None:
    scores = load_file(run.folder / "scores.safetensors")
    for kind in ("tr", "tl"):
        across = run.found["across_tasks"][kind]
        (pair,) = across["pairs"]
        assert pair["tasks"] == [WORDS, ECHO]
        one, other = (set(top_heads(scores[f"{task}/{kind}"], 0.2)) for task in (WORDS, ECHO))
        assert pair["jaccard"] == across["mean"]["jaccard"] == len(one & other) / len(one | other)


def test_every_claim_has_an_answer_and_figures(run: Run) -> None:
    assert len(run.found["claims"]) == 7
    for claim in run.found["claims"]:
        assert claim["shows"] == "not tested"  # of two tasks
        assert claim["differences"] and all(own["low"] is None for own in claim["differences"])
        assert any(char.isdigit() for char in claim["figures"])


def test_without_feed_forward_layers_all_heads_together_are_the_task_vector(
    tmp_path: Path, tasks_folder: Path
) -> None:
    lm = TaskVectorLM(pretrained=str(save_tiny(tmp_path / "tiny")), method="none")
    for layer in lm.model.model.layers:
        torch.nn.init.zeros_(layer.mlp.down_proj.weight)
    config, _ = parse_model_args({"method": "tr", "demos": 3, "average": 4})
    encoder = PromptEncoder(lm.tokenizer, lm.tok_encode, config.cue)
    bench = Bench(dissect(lm.model), encoder, config, lm.max_length)
    manager = TaskManager(include_path=str(tasks_folder), include_defaults=False)
    task = manager.load([WORDS])["tasks"][WORDS]
    task.set_fewshot_seed(1234)
    context = TaskContext(task, {})
    readings = read_heads(bench, context)
    queries = [episode.dummies[0] for episode in readings.episodes]
    vectors, outputs, states = differences(bench, context, readings, queries)
    assert states.shape == (4, 4, 32)
    found = explained(vectors, outputs, [(layer, head) for layer in range(4) for head in range(4)])
    assert found.cosine == pytest.approx([1] * 4, abs=1e-6)
    assert vectors.norm(dim=1).tolist() == pytest.approx(
        outputs.sum(dim=1).cumsum(dim=0).norm(dim=1).tolist(), rel=1e-5
    )


# ---- files --------------------------------------------------------------------------------------


def test_each_score_has_a_map_as_svg_and_png(run: Run) -> None:
    stems = [f"{task}.{name}" for task in (WORDS, ECHO) for name in (*SCORES, "explained")]
    for stem in (*stems, "induction"):
        assert (run.folder / f"{stem}.png").read_bytes().startswith(b"\x89PNG\r\n")
        root = ET.parse(run.folder / f"{stem}.svg").getroot()
        said = " ".join(text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text"))
        assert "layer" in said
        assert stem == "induction" or stem.partition(".")[0] in said
    written = {path.name for path in run.folder.iterdir()}
    assert len(written) == 2 * len(stems) + 2 + 2 + 2


def test_a_second_run_replaces_its_files_by_the_same_and_leaves_others_alone(
    run: Run, folder: Path, tasks_folder: Path
) -> None:
    before = {path.name: path.read_bytes() for path in run.folder.iterdir()}
    (run.folder / "notes.txt").write_text("mine")
    (run.folder / "induction.png").write_text("damaged")
    try:
        assert cli.main(arguments(folder, tasks_folder, run.folder)) == 0
        after = {path.name: path.read_bytes() for path in run.folder.iterdir()}
        assert after == {**before, "notes.txt": b"mine"}
    finally:
        (run.folder / "notes.txt").unlink()


def test_what_is_kept_is_not_measured_again(
    run: Run, folder: Path, tasks_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted run keeps what it finished; the next one does the rest, and ends the same."""
    measured: list[str] = []
    measure = heads_measure.measure

    def interrupted(bench: Bench, context: TaskContext) -> Any:
        measured.append(context.name)
        if measured == [WORDS, ECHO]:
            raise KeyboardInterrupt
        return measure(bench, context)

    monkeypatch.setattr(heads_measure, "measure", interrupted)
    argv = arguments(folder, tasks_folder, tmp_path)
    assert cli.main(argv) == cli.INTERRUPTED
    assert [path.name for path in tmp_path.iterdir()] == [f"{WORDS}.findings.safetensors"]
    assert cli.main(argv) == 0
    assert measured == [WORDS, ECHO, ECHO]
    for path in run.folder.iterdir():
        if path.name not in ("scores.json", "scores.safetensors"):  # these give the command
            assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name
    one, other = (
        {**json.loads((out / "scores.json").read_text()), "command": "", "scores_sha256": ""}
        for out in (run.folder, tmp_path)
    )
    assert one == other
    argv[-1] = argv[-1].replace("demos=4", "demos=3")
    assert cli.main(argv) == 0
    assert measured[3:] == [WORDS, ECHO]


def test_an_interruption_says_what_is_kept(
    folder: Path,
    tasks_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(bench: Bench, context: TaskContext) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(heads_measure, "measure", interrupted)
    assert cli.main(arguments(folder, tasks_folder, tmp_path)) == cli.INTERRUPTED
    said = capsys.readouterr().err
    assert f"The findings on 0 of 2 tasks are kept in {tmp_path}" in said


def test_a_task_whose_documents_changed_is_measured_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = own_task(tmp_path / "own", ["yes", "no"])
    argv = arguments(folder, tasks, tmp_path / "out", "mine")
    assert cli.main(argv) == 0
    rows = (tasks / "mine.jsonl").read_text()
    (tasks / "mine.jsonl").write_text(rows.replace('"q3"', '"other"'))
    measured: list[str] = []
    measure = heads_measure.measure
    monkeypatch.setattr(
        heads_measure, "measure", lambda b, c: measured.append(c.name) or measure(b, c)
    )
    assert cli.main(argv) == 0
    assert measured == ["mine"]
    assert cli.main(argv) == 0
    assert measured == ["mine"]


@pytest.mark.parametrize(("given", "seed"), [("7", 7), ("0,1,2,7", 7), (None, 1234)])
def test_the_few_shot_seed_is_given_as_for_lm_eval(
    given: str | None,
    seed: int,
    folder: Path,
    tasks_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(ConfigurableTask, "set_fewshot_seed", lambda self, seed: seeds.append(seed))
    argv = arguments(folder, tasks_folder, tmp_path, WORDS)
    with contextlib.suppress(AttributeError, KeyError, TypeError):
        cli.main([*argv, *(["--seed", given] if given else [])])
    assert seeds == [seed]


@pytest.mark.parametrize("given", ["x", "1,2", "1.5", "0,1,2,None"])
def test_a_seed_that_is_none_is_named(
    given: str, folder: Path, tasks_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*arguments(folder, tasks_folder, tmp_path), "--seed", given]) == 2
    assert f"--seed {given} is not accepted" in capsys.readouterr().err


def test_the_page_fits_into_80_columns_without_colours(run: Run) -> None:
    *lines, last = run.printed.splitlines()
    assert last == f"24 files in {run.folder}"
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in run.printed
    top = run.found["tasks"][WORDS]["top"]["tr"]
    assert " ".join(f"{each['layer']}.{each['head']}" for each in top) in run.printed


def test_by_default_it_writes_to_a_folder_named_after_the_model(
    folder: Path, tasks_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = arguments(folder, tasks_folder, tmp_path, WORDS)
    argv[argv.index("--output_path") : argv.index("--output_path") + 2] = []
    assert cli.main(argv) == 0
    found = json.loads((tmp_path / "heads" / folder.name / "scores.json").read_text())
    assert list(found["tasks"]) == [WORDS]
    assert found["across_tasks"] == {}


# ---- mistakes -----------------------------------------------------------------------------------


@pytest.fixture
def refused(
    folder: Path,
    tasks_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., str]:
    """The message with which a run stops, before its model loads and anything is written."""

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("the model loads")

    # Indexing all of lm-eval's own tasks takes seconds.
    (tmp_path / "stock").mkdir()
    monkeypatch.setattr(manager_module, "__file__", str(tmp_path / "stock" / "manager.py"))
    monkeypatch.setattr("harness_ext.lm.TaskVectorLM", fail)

    def run(names: str = WORDS, settings: str = SETTINGS, **given: Any) -> str:
        out = given.get("out", tmp_path / "out")
        assert (
            cli.main(arguments(folder, given.get("tasks", tasks_folder), out, names, settings)) == 2
        )
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("taskvec: error: ") and printed.err.count("\n") == 1
        assert not (tmp_path / "out").exists()
        return printed.err

    return run


def own_task(folder: Path, answers: list[str]) -> Path:
    """A folder with the task `mine`, whose queries have these answers in turn."""
    rows = [
        {"x": f"q{n}", "y": answers[n % len(answers)], "split": "train" if n < 12 else "test"}
        for n in range(16)
    ]
    folder.mkdir()
    (folder / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    config = {
        "include": str(TASKS / "_forward.yaml"),
        "task": "mine",
        "dataset_name": str(folder / "mine.jsonl"),
        "metadata": {"version": 1.0},
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump(config))
    return folder


def test_an_unknown_task_is_named_with_the_nearest(refused: Callable[..., str]) -> None:
    message = refused("forward_uper3")
    assert "forward_uper3 is not known" in message and WORDS in message


def test_no_task_is_a_mistake(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["heads"]) == 2
    assert "No task is given" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("head_fraction=0", "head_fraction=0 is not accepted"),
        ("head_fraction=1.5", "head_fraction=1.5 is not accepted"),
        ("head_fraction=0.6", "at most 0.5"),
        ("average=0", "average=0 is not accepted where attention heads are scored"),
        ("head_fraction=-1", "head_fraction=-1 is not accepted"),
        ("method=tl", "method=tl has no part in `taskvec heads`"),
        ("ablate=tr", "ablate=tr has no part in `taskvec heads`"),
        ("layer=3", "layer=3 has no part in `taskvec heads`"),
        ("demoes=3", "Did you mean demos"),
        ("demos=40", "demos=40"),
    ],
)
def test_a_value_out_of_range_and_what_has_no_part_are_named(
    refused: Callable[..., str], settings: str, message: str
) -> None:
    assert message in refused(settings=settings)


def test_a_task_of_one_label_is_named(refused: Callable[..., str], tmp_path: Path) -> None:
    message = refused("mine", tasks=own_task(tmp_path / "own", ["yes"]))
    assert "task 'mine': every few-shot document has one and the same label, 'yes'" in message


def test_a_cue_inside_a_text_is_named_with_what_helps(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    message = refused("mine", tasks=own_task(tmp_path / "own", ["a → b", "c"]))
    assert "task 'mine': the cue '→' occurs" in message
    assert message.endswith("Choose a cue that occurs in no word of the task.\n")


def test_labels_that_begin_with_one_token_are_named(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    message = refused("mine", tasks=own_task(tmp_path / "own", ["yes", "yep"]))
    assert "task 'mine': the labels 'yep', 'yes' all begin with one token" in message


def test_a_file_in_the_place_of_the_folder_is_named(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    assert f"{tmp_path / 'file'} cannot hold the findings" in refused(out=tmp_path / "file")


def test_a_model_whose_attention_cannot_be_split_is_refused_without_a_traceback(
    tmp_path: Path, tasks_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save_tiny(tmp_path / "mixed", "qwen3_next")
    assert cli.main(arguments(model, tasks_folder, tmp_path / "out", WORDS)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "taskvec: error: " in printed.err and "Traceback" not in printed.err
    assert not (tmp_path / "out").exists()
