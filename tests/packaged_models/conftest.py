"""A tiny packaged model, the wheels it comes as, and an empty cache."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness_ext import packaged_models
from harness_ext.packaged_models import PackagedModel, cache
from tests.packaged_models import gguf_models


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PackagedModel]:
    """A folder of wheels, standing in for the package index, and the tiny model they hold."""
    folder = tmp_path_factory.mktemp("shop")
    gguf_file = gguf_models.write_gguf(gguf_models.tiny_llama(), folder / "tiny.gguf")
    return folder, gguf_models.write_wheels(gguf_file, folder, parts=2)


@pytest.fixture
def tiny(
    shop: tuple[Path, PackagedModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> PackagedModel:
    """The tiny model under its name, an empty cache, and pip confined to the folder of wheels."""
    folder, model = shop
    monkeypatch.setattr(packaged_models, "MODELS", {model.name: model})
    monkeypatch.setenv("TASKVEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return model


@pytest.fixture
def offline(tiny: PackagedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackagedModel:
    """The same where pip finds nothing."""
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return tiny


@pytest.fixture
def seeded(offline: PackagedModel, shop: tuple[Path, PackagedModel]) -> PackagedModel:
    """The same where pip finds nothing, but the wheels were put into the cache by hand."""
    cache.wheels_folder().mkdir(parents=True)
    for wheel in offline.wheels:
        shutil.copy(shop[0] / wheel.filename, cache.wheels_folder())
    return offline
