"""The fixtures of the model's tests, for the methods it runs."""

from tests.lm.conftest import (  # noqa: F401
    evaluate,
    folder,
    manager,
    steered,
    stock_task,
    tasks_folder,
)
