from pathlib import Path

from harness_ext.compare.page import provenance as module
from harness_ext.compare.page.provenance import day, provenance
from harness_ext.compare.text import Places
from tests.compare.page_data import evaluation


def test_models_tell_what_they_were_made_with_and_where_runs_differ() -> None:
    own = provenance(
        [
            evaluation(),
            evaluation(shots=2, facts={"lm-eval": "0.4.14", "limit": 5}),
            evaluation(settings={"dtype": "bfloat16"}),
        ],
        Places([]),
    )
    one, other = own.models
    assert one.facts == {"dtype": "float32", "lm-eval": "0.4.13, 0.4.14", "revision": "main"}
    assert (other.model, other.facts["dtype"]) == ("tiny", "bfloat16")
    assert own.fact_names == ("dtype", "lm-eval", "revision")


def test_runs_tell_shots_tasks_seeds_limit_days_and_settings() -> None:
    limited = {"facts": {"limit": 5}, "settings": {"vectors": "/home/anna/v.safetensors"}}
    (run,) = provenance([evaluation(seed=seed, **limited) for seed in (1, 2)], Places([])).runs
    assert (run.shots, run.tasks, run.seeds) == ("0", "1 task, limit 5", "1, 2")
    assert (run.dates, run.settings) == ("2026-05-06", "vectors=…/v.safetensors")


def test_files_are_named_without_the_machine_and_beyond_a_limit_counted(monkeypatch) -> None:
    monkeypatch.setattr(module, "FILES", 2)
    paths = [Path(f"/home/anna/runs/{n}/results.json") for n in range(3)]
    own = provenance([evaluation(path=path) for path in paths], Places([Path("/home/anna/runs")]))
    assert own.files == (("runs/0/results.json", "1 task"), ("runs/1/results.json", "1 task"))
    assert own.unnamed == 1


def test_impossible_dates_are_none() -> None:
    assert [day(value) for value in (0.0, 1e300, -5.0)] == ["", "", ""]
