"""The package as a user gets it: installed in a fresh environment, used through stock lm-eval.

The fresh environments see the libraries of the running one, but nothing of this package: what they
find of it comes from the installation under test.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.install

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (
    "harness_ext",
    "startup",
    "tasks",
    "hatch_build.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)
OURS = ("harness_ext", "taskvec", "_taskvec")
TASK = "bijection_upper"


@dataclass(frozen=True)
class Environment:
    """A fresh virtual environment, and an unrelated folder to work in."""

    folder: Path
    elsewhere: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        return next(self.folder.glob("lib/python*/site-packages"))

    def run(self, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, which must succeed, in the unrelated folder."""
        program, *arguments = command
        done = self.try_run(program, *arguments, **variables)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done

    def try_run(self, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        program, *arguments = command
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        return subprocess.run(
            [self.folder / "bin" / program, *arguments],
            cwd=self.elsewhere,
            env={**inherited, "PYTHONWARNINGS": "ignore", **variables},
            capture_output=True,
            text=True,
        )

    def files(self) -> set[Path]:
        """All files, but for the bytecode that Python writes by itself."""
        return {
            path
            for path in self.folder.rglob("*")
            if path.is_file() and not path.is_symlink() and path.suffix != ".pyc"
        }


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the package is built from."""
    copy = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy)
    return copy


@pytest.fixture(scope="session")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run([sys.executable, *build], check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of links to every installed library, and to nothing of this package."""
    # By this name dill, which datasets uses, tells libraries from code to be pickled by value.
    links = tmp_path_factory.mktemp("libraries") / "site-packages"
    links.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        start_up_file = entry.suffix in (".pth", ".start")
        if not start_up_file and not entry.name.startswith((*OURS, "__pycache__", "pip")):
            (links / entry.name).symlink_to(entry)
    return links


def fresh_environment(folder: Path, libraries: Path) -> Environment:
    venv.create(folder, with_pip=True, symlinks=True)
    environment = Environment(folder, folder.parent / "elsewhere")
    environment.elsewhere.mkdir()
    (environment.site_packages / "libraries.pth").write_text(f"{libraries}\n")
    _copy_stock_command(environment)
    return environment


def _copy_stock_command(environment: Environment) -> None:
    """lm-eval's own console script, with the fresh interpreter in its first line."""
    script = Path(sysconfig.get_path("scripts")) / "lm_eval"
    _, code = script.read_text().split("\n", 1)
    copy = environment.folder / "bin" / "lm_eval"
    copy.write_text(f"#!{environment.python}\n{code}")
    copy.chmod(0o755)


@pytest.fixture(scope="session", params=["wheel", "editable"])
def installed(
    request: pytest.FixtureRequest,
    source: Path,
    wheel: Path,
    libraries: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Environment:
    folder = tmp_path_factory.mktemp(request.param) / "environment"
    environment = fresh_environment(folder, libraries)
    what = [wheel] if request.param == "wheel" else ["--no-build-isolation", "-e", source]
    environment.run("pip", "install", "--no-deps", *what)
    return environment


def test_the_environment_sees_this_installation_alone(installed: Environment, source: Path) -> None:
    code = "import harness_ext, sys; print(harness_ext.__file__); print(*sys.path, sep='\\n')"
    module, *path = installed.run("python", "-c", code).stdout.splitlines()
    assert Path(module).is_relative_to(installed.folder) or Path(module).is_relative_to(source)
    assert str(ROOT) not in path


def test_what_is_required_is_what_the_tests_run_with(installed: Environment) -> None:
    complaints = installed.try_run("pip", "check").stdout.splitlines()
    assert [line for line in complaints if line.startswith("taskvec-harness")] == []


def test_stock_lm_eval_lists_our_tasks_beside_its_own(installed: Environment) -> None:
    done = installed.run("lm_eval", "ls", "tasks")
    names = {line.split("|")[1].strip() for line in done.stdout.splitlines() if "|" in line}
    assert {TASK, "taskvec_bijection", "hellaswag"} <= names
    assert "overrides existing" not in done.stdout + done.stderr, "a name is taken by lm-eval"


def test_stock_lm_eval_validates_our_task(installed: Environment) -> None:
    done = installed.run("lm_eval", "validate", "--tasks", TASK)
    assert "All tasks found and valid" in done.stdout


def test_a_users_include_path_wins(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f"task: {TASK}\ndataset_path: json\n")
    code = f"""
from lm_eval.tasks import TaskManager
manager = TaskManager(include_path={str(tmp_path)!r})
print(manager.task_index[{TASK!r}].yaml_path, "forward_upper" in manager.task_index)
"""
    done = installed.run("python", "-c", code)
    assert done.stdout.split() == [str(tmp_path / "mine.yaml"), "True"]


@pytest.mark.packaged
def test_the_main_job_runs_in_any_folder(installed: Environment) -> None:
    done = installed.run(
        "lm_eval",
        *("--model", "taskvec-hf", "--tasks", TASK, "--limit", "4", "--output_path", "results"),
        *("--model_args", "layer=12"),
    )
    assert TASK in done.stdout
    [results] = (installed.elsewhere / "results").glob("*/results_*.json")
    assert results.parent.name == "smollm2-135m"
    assert TASK in json.loads(results.read_text())["results"]


@pytest.mark.packaged
def test_simple_evaluate_finds_model_and_task(installed: Environment) -> None:
    code = f"""
import lm_eval
results = lm_eval.simple_evaluate(
    model="taskvec-hf", model_args="method=none", tasks=[{TASK!r}], limit=2
)
print(*results["results"])
"""
    assert installed.run("python", "-c", code).stdout.split()[-1] == TASK


@pytest.mark.packaged
def test_taskvec_run_works_with_start_up_files_switched_off(installed: Environment) -> None:
    path = installed.run("python", "-c", "import sys; print(*sys.path[1:], sep=':')").stdout.strip()
    without_site = ("python", "-S", "-m", "harness_ext")
    done = installed.run(
        *without_site,
        *("run", "--tasks", TASK, "--limit", "2", "--model_args", "method=none"),
        PYTHONPATH=path,
    )
    assert f"|{TASK}" in done.stdout
    assert "taskvec-hf" in done.stdout


def test_a_mistake_is_one_line_on_stderr(installed: Environment) -> None:
    done = installed.try_run("taskvec", "run", "--tasks", TASK, "--model_args", "layer=deep")
    assert done.returncode == 2
    assert done.stderr.startswith("taskvec: error: layer=deep")
    assert done.stderr.count("\n") == 1


def test_the_package_may_vanish_without_a_word(installed: Environment, source: Path) -> None:
    """As when the source folder of an editable installation is moved away."""
    package = Path(
        installed.run(
            "python", "-c", "import harness_ext as h; print(h.__path__[0])"
        ).stdout.strip()
    )
    hidden = package.rename(package.with_name("hidden"))
    try:
        code = "import lm_eval.models; print('imported')"
        done = installed.run("python", "-c", code)
    finally:
        hidden.rename(package)
    assert (done.stdout, done.stderr) == ("imported\n", "")


@pytest.fixture
def to_uninstall(wheel: Path, libraries: Path, tmp_path: Path) -> Environment:
    return fresh_environment(tmp_path / "environment", libraries)


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_uninstalling_leaves_nothing_behind(
    to_uninstall: Environment, wheel: Path, source: Path, kind: str
) -> None:
    before = to_uninstall.files()
    what = [wheel] if kind == "wheel" else ["--no-build-isolation", "-e", source]
    to_uninstall.run("pip", "install", "--no-deps", *what)
    to_uninstall.run("lm_eval", "validate", "--tasks", TASK)
    assert to_uninstall.files() > before
    to_uninstall.run("pip", "uninstall", "--yes", "taskvec-harness")
    assert to_uninstall.files() == before
    assert not list(to_uninstall.site_packages.glob("harness_ext"))
    done = to_uninstall.run("python", "-c", "import sys; print(sys.meta_path)")
    assert "HookFinder" not in done.stdout
    assert done.stderr == ""


def test_the_start_up_files_cost_under_2_ms(installed: Environment) -> None:
    # Python's own account of its imports, and the least of several starts: the clock around a
    # whole start would mostly tell what else the machine is doing.
    costs_us = []
    for _ in range(20):
        report = installed.run("python", "-X", "importtime", "-c", "pass").stderr
        [line] = [line for line in report.splitlines() if line.endswith("_taskvec_startup")]
        costs_us.append(int(line.split("|")[1]))
    assert min(costs_us) < 2000
