from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch

from harness_ext.errors import UsageError
from harness_ext.theory import Preset, RunFolder, Workers, run
from harness_ext.theory.runner import measure_all

from .toy import Squares, Surprise

QUICK = Preset("quick")
ALONE = Workers(jobs=1)


class Interrupted(Exception):
    pass


class Fragile(Squares):
    """Fails at k = 2."""

    def measure(self, cell):
        if cell.settings["k"] == 2:
            raise Interrupted
        return super().measure(cell)


class Counting(Squares):
    """Remembers what it measured."""

    measured: list[int]

    def __init__(self) -> None:
        self.measured = []

    def measure(self, cell):
        self.measured.append(cell.settings["k"])
        return super().measure(cell)


def test_figures_reach_the_judge_in_the_order_of_the_cells() -> None:
    (outcome,) = run([Squares()], QUICK, workers=Workers(jobs=2))
    assert [figures["square"] for _, figures in outcome.measured] == [0, 1, 4, 9]
    assert not outcome.surprises


def test_a_claim_that_ends_otherwise_than_recorded_is_a_surprise() -> None:
    outcomes = run([Squares(), Surprise()], QUICK, workers=ALONE)
    assert [len(outcome.surprises) for outcome in outcomes] == [0, 1]


def test_an_interrupted_run_measures_only_what_is_missing(tmp_path) -> None:
    folder = RunFolder.open(tmp_path, QUICK)
    with pytest.raises(Interrupted):
        run([Fragile()], QUICK, folder, ALONE)
    again = Counting()
    (outcome,) = run([again], QUICK, RunFolder.open(tmp_path, QUICK), ALONE)
    assert again.measured == [2, 3]
    assert [figures["square"] for _, figures in outcome.measured] == [0, 1, 4, 9]


def test_measuring_uses_one_thread_and_gives_the_others_back() -> None:
    class Threads(Squares):
        def measure(self, cell):
            return {"square": torch.get_num_threads()}

    before = torch.get_num_threads()
    (outcome,) = run([Threads()], QUICK, workers=ALONE)
    assert {figures["square"] for _, figures in outcome.measured} == {1}
    assert torch.get_num_threads() == before


def test_a_dask_cluster_measures_the_same_figures() -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        workers = Workers(backend="dask", address=cluster.scheduler_address)
        check = Squares()
        found = list(measure_all([(check, cell) for cell in check.cells(QUICK)], workers))
    assert sorted(figures["square"] for _, figures in found) == [0, 1, 4, 9]


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        (Workers(jobs=0), "--jobs is 0"),
        (Workers(backend="dask"), "--backend dask needs --address"),
        (Workers(address="tcp://host:1"), "needs --backend dask or ray"),
    ],
)
def test_workers_that_cannot_be_are_refused(workers, message) -> None:
    with pytest.raises(UsageError, match=message):
        run([Squares()], QUICK, workers=workers)


@pytest.fixture
def dead_address() -> Iterator[str]:
    """A port of this machine where nothing listens, and nothing else will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_an_address_where_no_scheduler_answers_is_refused(monkeypatch, dead_address) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("harness_ext.theory.runner.CONNECT_SECONDS", 1)
    workers = Workers(backend="dask", address=f"tcp://{dead_address}")
    with pytest.raises(UsageError, match="no Dask scheduler answers"):
        run([Squares()], QUICK, workers=workers)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_dead_ray_address_is_refused_before_ray_tries_for_minutes(
    scheme, monkeypatch, dead_address
) -> None:
    class Ray(ModuleType):
        def init(self, address: str) -> None:
            raise AssertionError("must not be reached")

    fakes = {name: Ray(name) for name in ("ray", "ray.util", "ray.util.joblib")}
    fakes["ray.util.joblib"].register_ray = None  # type: ignore[attr-defined]
    for name, module in fakes.items():
        monkeypatch.setitem(sys.modules, name, module)
    workers = Workers(backend="ray", address=f"{scheme}{dead_address}")
    with pytest.raises(UsageError, match="no Ray cluster answers"):
        run([Squares()], QUICK, workers=workers)
