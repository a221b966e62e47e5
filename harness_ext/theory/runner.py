"""Cells of work through joblib: resumable, the same figures on any backend."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal
from urllib.parse import urlsplit

import joblib
import torch
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from harness_ext.errors import UsageError
from harness_ext.theory.check import Cell, Check, Finding, Measured, Preset
from harness_ext.theory.store import RunFolder

BackendName = Literal["loky", "dask", "ray"]

Work = tuple[Check, Cell]

CONNECT_SECONDS = 10
"""How long a cluster has to answer."""


@dataclass(frozen=True)
class Workers:
    """Where cells are measured.

    Attributes:
        jobs: processes on this machine, or tasks at a time on a cluster; -1 for all there are.
        backend: `loky` for processes of this machine; `dask` or `ray` for a cluster.
        address: the cluster's scheduler, such as ``tcp://host:8786``.
    """

    jobs: int = -1
    backend: BackendName = "loky"
    address: str | None = None

    def verify(self) -> None:
        """Raise :class:`UsageError` for settings that cannot be, or a cluster that is not there."""
        with _cluster(self):
            pass


@dataclass(frozen=True)
class Outcome:
    """A check that ran: what was measured and how its claims ended."""

    check: Check
    measured: Measured
    findings: tuple[Finding, ...]

    @property
    def surprises(self) -> list[Finding]:
        """The findings that differ from their claim's recorded outcome."""
        expected = {claim.key: claim.expected for claim in self.check.claims}
        return [finding for finding in self.findings if finding.verdict != expected[finding.claim]]


def run(
    checks: Sequence[Check],
    preset: Preset,
    folder: RunFolder | None = None,
    workers: Workers | None = None,
) -> list[Outcome]:
    """Measure every cell of the checks and judge them.

    With a folder, each cell's figures are written there as they arrive, and cells found there are
    not measured again. Raises :class:`UsageError` for what a check or the backend cannot do.
    """
    plan = [(check, cell) for check in checks for cell in check.cells(preset)]
    if folder:
        folder.reserve(check.name for check in checks)
    done: dict[tuple[str, str], dict[str, Any]] = {}
    todo: list[Work] = []
    for check, cell in plan:
        figures = folder.load(cell) if folder else None
        if figures is None:
            todo.append((check, cell))
        else:
            done[_identity(cell)] = figures
    # Progress is for people: silent where the output is not a terminal.
    with tqdm(total=len(plan), initial=len(done), unit="cell", disable=None) as bar:
        for cell, figures in measure_all(todo, workers or Workers()):
            if folder:
                folder.save(cell, figures)
            done[_identity(cell)] = figures
            bar.set_description(cell.check)
            bar.update()
    return [
        _judged(check, [(cell, done[_identity(cell)]) for own, cell in plan if own is check])
        for check in checks
    ]


def measure_all(work: Sequence[Work], workers: Workers) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """The cells' figures as they become ready, in no particular order."""
    if not work:
        return
    with _backend(workers):
        if workers.backend == "ray":  # its backend hands results back in lists only
            waiting = iter(work)
            size = 4 * joblib.effective_n_jobs(workers.jobs)
            while block := list(islice(waiting, size)):
                yield from joblib.Parallel(workers.jobs)(map(joblib.delayed(_measure), block))
            return
        parallel = joblib.Parallel(workers.jobs, batch_size=1, return_as="generator_unordered")
        # Closed even if the caller stops early: what was not started is cancelled.
        with closing(parallel(map(joblib.delayed(_measure), work))) as results:
            yield from results


def _measure(work: Work) -> tuple[Cell, dict[str, Any]]:
    check, cell = work
    with one_thread():
        return cell, check.measure(cell)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch and BLAS: sums then run in one order, and processes share the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _backend(workers: Workers) -> Iterator[None]:
    with _cluster(workers), joblib.parallel_config(workers.backend):
        yield


def _cluster(workers: Workers) -> AbstractContextManager[Any]:
    if workers.jobs < -1 or workers.jobs == 0:
        raise UsageError(f"--jobs is {workers.jobs}; it is -1 for one per core, or at least 1")
    if workers.backend == "loky":
        return _local(workers)
    if workers.address is None:
        raise UsageError(
            f"--backend {workers.backend} needs --address, the scheduler of a running cluster"
        )
    return _dask(workers.address) if workers.backend == "dask" else _ray(workers.address)


@contextmanager
def _local(workers: Workers) -> Iterator[None]:
    if workers.address is not None:
        raise UsageError(
            f"--address {workers.address} needs --backend dask or ray: loky is this machine"
        )
    yield


@contextmanager
def _dask(address: str) -> Iterator[None]:
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError(_missing("dask")) from error
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise UsageError(f"no Dask scheduler answers at {address}: {error}") from error
    with client:
        yield


@contextmanager
def _ray(address: str) -> Iterator[None]:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise UsageError(_missing("ray")) from error
    try:
        _knock(address)
        ray.init(address=address)
    except (OSError, ValueError) as error:
        raise UsageError(f"no Ray cluster answers at {address}: {error}") from error
    register_ray()
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Raise OSError where nothing listens: Ray itself would try again for minutes."""
    place = urlsplit(address if "//" in address else f"//{address}")
    if place.port is not None:  # none in `auto`
        socket.create_connection((place.hostname, place.port), CONNECT_SECONDS).close()


def _missing(backend: str) -> str:
    return f"--backend {backend} needs a package: pip install 'taskvec-harness[{backend}]'"


def _identity(cell: Cell) -> tuple[str, str]:
    return cell.check, cell.key


def _judged(check: Check, measured: Measured) -> Outcome:
    findings = tuple(check.judge(measured))
    keys = [claim.key for claim in check.claims]
    if [finding.claim for finding in findings] != keys:
        raise AssertionError(f"{check.name} must judge its claims {keys}, each once, in order")
    return Outcome(check, measured, findings)
