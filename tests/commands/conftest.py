"""The model and the tasks of the model's tests, for the commands."""

from tests.lm.conftest import evaluate, folder, manager, tasks_folder  # noqa: F401
