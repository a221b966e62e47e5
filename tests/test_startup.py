"""The start-up hook, each test in a Python of its own."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from harness_ext import plugin

ROOT = Path(__file__).resolve().parent.parent
STARTUP = ROOT / "startup"
PTH = STARTUP / "taskvec-harness.pth"
START = STARTUP / "taskvec-harness.start"
SITE_PACKAGES = Path(sysconfig.get_path("purelib"))


def run_python(code: str, *paths: Path) -> str:
    """Run the start-up line, then code, in a Python that finds modules in these folders alone.

    Returns what was printed.
    """
    folders = [str(path) for path in (STARTUP, *paths)]
    preamble = (
        f"import sys; before = {{*sys.modules}}; sys.path[1:1] = {folders}\n{PTH.read_text()}"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", preamble + code], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.fixture
def other_lm_eval(tmp_path: Path) -> Path:
    """A folder with an lm-eval that has our module names and nothing that we look for in them."""
    for package in ("models", "tasks", "loggers"):
        folder = tmp_path / "lm_eval" / package
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("executed = True\n")
    (tmp_path / "lm_eval" / "__init__.py").write_text("")
    (tmp_path / "lm_eval" / "loggers" / "evaluation_tracker.py").write_text("executed = True\n")
    return tmp_path


def test_the_start_up_line_imports_nothing_but_the_hook() -> None:
    assert run_python("print({*sys.modules} - before)", ROOT) == "{'_taskvec_startup'}"


def test_the_start_up_line_is_one_import_line() -> None:
    assert PTH.read_text().startswith("import ")
    assert PTH.read_text().count("\n") == 1


def test_the_start_file_names_what_the_pth_file_calls() -> None:
    # Python 3.15 ignores the import line of a .pth file beside a .start file of the same name.
    assert START.stem == PTH.stem
    [entry] = START.read_text().splitlines()
    module, function = entry.split(":")
    assert PTH.read_text() == f"import {module}; {module}.{function}()\n"


def test_installing_twice_adds_one_finder() -> None:
    code = """
import _taskvec_startup
_taskvec_startup.install()
print(sum(type(finder).__name__ == "HookFinder" for finder in sys.meta_path))
"""
    assert run_python(code) == "1"


def test_nothing_happens_where_the_package_is_gone(other_lm_eval: Path) -> None:
    assert run_python("import lm_eval.models; print('imported')", other_lm_eval) == "imported"


def test_every_build_ships_every_start_up_file() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    for file in (path for path in STARTUP.iterdir() if path.is_file()):
        assert f'"startup/{file.name}" = "{file.name}"' in project
        assert f'"{file.name}"' in (ROOT / "hatch_build.py").read_text()


def test_nothing_happens_where_lm_eval_is_not_installed() -> None:
    code = """
try:
    import lm_eval.models
except ModuleNotFoundError as error:
    print(error)
"""
    assert run_python(code, ROOT) == "No module named 'lm_eval'"


def test_another_lm_eval_is_imported_without_a_word(other_lm_eval: Path) -> None:
    code = """
import lm_eval.models, lm_eval.tasks, lm_eval.loggers.evaluation_tracker
print(lm_eval.models.executed, lm_eval.tasks.executed)
"""
    assert run_python(code, ROOT, other_lm_eval) == "True True"


def test_another_lm_eval_is_named_when_the_plug_in_is_asked_for(other_lm_eval: Path) -> None:
    code = """
from harness_ext import errors, plugin
try:
    plugin.activate()
except errors.UsageError as error:
    print(error)
"""
    message = run_python(code, ROOT, other_lm_eval)
    assert "does not fit" in message
    assert plugin.SUPPORTED in message


def test_a_module_that_fails_to_import_fails_as_without_the_hook(tmp_path: Path) -> None:
    models = tmp_path / "lm_eval" / "models"
    models.mkdir(parents=True)
    (tmp_path / "lm_eval" / "__init__.py").write_text("")
    (models / "__init__.py").write_text("raise RuntimeError('broken')")
    code = """
for attempt in range(2):
    try:
        import lm_eval.models
    except RuntimeError as error:
        print(error)
"""
    assert run_python(code, ROOT, tmp_path) == "broken\nbroken"


def test_looking_for_a_module_without_importing_it_changes_nothing(other_lm_eval: Path) -> None:
    code = """
import importlib.util
spec = importlib.util.find_spec("lm_eval.models")
print("lm_eval.models" in sys.modules)
import lm_eval.models
print(lm_eval.models.executed, "exec_module" in vars(lm_eval.models.__loader__))
"""
    assert run_python(code, ROOT, other_lm_eval) == "False\nTrue False"


def test_lm_eval_keeps_its_own_models_and_gains_ours() -> None:
    code = """
import lm_eval.models
from lm_eval.api.registry import model_registry
print(set(model_registry.keys()) - set(lm_eval.models.MODEL_MAPPING))
print(set(lm_eval.models.MODEL_MAPPING) - set(model_registry.keys()))
print("harness_ext.lm" in sys.modules, "torch" in sys.modules)
"""
    printed = run_python(code, ROOT, SITE_PACKAGES)
    assert printed == "{'taskvec-hf'}\nset()\nFalse False"


def test_the_registry_is_still_empty_when_only_the_registry_is_imported() -> None:
    # lm-eval fills an empty registry on demand: an early entry would hide its models.
    code = """
from lm_eval.api.registry import get_model, model_registry
print(len(model_registry))
print(get_model("dummy").__name__, "taskvec-hf" in model_registry)
"""
    printed = run_python(code, ROOT, SITE_PACKAGES)
    assert printed == "0\nDummyLM True"


def test_a_reloaded_module_is_hooked_again() -> None:
    code = """
import importlib
import lm_eval.models
from lm_eval.api.registry import model_registry
model_registry._objs.pop("taskvec-hf")
importlib.reload(lm_eval.models)
print("taskvec-hf" in model_registry)
"""
    assert run_python(code, ROOT, SITE_PACKAGES) == "True"


def test_modules_that_share_a_loader_are_hooked_one_by_one(tmp_path: Path) -> None:
    # As in an archive, and unlike in a folder, where every module has a loader of its own.
    package = tmp_path / "source" / "lm_eval"
    (package / "api").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "models.py").write_text("import lm_eval.api.registry\n")
    (package / "api" / "__init__.py").write_text("")
    (package / "api" / "registry.py").write_text(
        "class Registry(dict):\n"
        "    def register(self, name, target):\n"
        "        self[name] = target\n"
        "model_registry = Registry()\n"
    )
    archive = shutil.make_archive(str(tmp_path / "lm_eval"), "zip", tmp_path / "source")
    code = """
import lm_eval.models
print(lm_eval.api.registry.model_registry, lm_eval.models.__loader__)
"""
    printed = run_python(code, ROOT, Path(archive))
    assert printed.startswith("{'taskvec-hf': 'harness_ext.lm:TaskVectorLM'} <zipimporter")
