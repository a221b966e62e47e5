"""The names users call: which models there are, and what `pretrained` stands for."""

from __future__ import annotations

import fcntl
import os
import pty
import stat
import struct
import subprocess
import sys
import termios
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from harness_ext import packaged_models
from harness_ext.errors import UsageError
from harness_ext.packaged_models import MODELS, PackagedModel
from tests.packaged_models import gguf_models


def test_path_downloads_verifies_and_converts_at_first_use(tiny: PackagedModel) -> None:
    assert packaged_models.state("tiny") == "not fetched"
    folder = packaged_models.path("tiny")
    assert packaged_models.state("tiny") == "ready"
    ids = torch.arange(40).reshape(2, 20)
    with torch.no_grad():
        logits = AutoModelForCausalLM.from_pretrained(folder)(ids).logits
        assert torch.equal(logits, gguf_models.tiny_llama()(ids).logits)


def test_resolve_turns_a_packaged_name_into_its_folder(tiny: PackagedModel) -> None:
    assert packaged_models.resolve("packaged:tiny") == str(packaged_models.path("tiny"))


def test_resolve_gives_the_default_model_where_none_is_named(
    tiny: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    named_default = replace(tiny, name=packaged_models.DEFAULT)
    monkeypatch.setattr(packaged_models, "MODELS", {packaged_models.DEFAULT: named_default})
    assert packaged_models.resolve(None) == packaged_models.resolve("packaged:smollm2-135m")


@pytest.mark.parametrize("name", ["gpt2", "org/model", "./folder", "smollm2-135m", ""])
def test_resolve_leaves_every_other_name_alone(name: str) -> None:
    assert packaged_models.resolve(name) == name


@pytest.mark.parametrize("name", ["packaged:gemma", "packaged:", "packaged:SmolLM2-135M"])
def test_an_unknown_packaged_model_is_an_error_that_lists_the_known(name: str) -> None:
    with pytest.raises(UsageError) as error:
        packaged_models.resolve(name)
    assert repr(name.removeprefix("packaged:")) in str(error.value)
    assert all(known in str(error.value) for known in MODELS)


def test_rows_tell_licence_size_state_and_folder_and_fetch_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKVEC_CACHE", str(tmp_path / "cache"))
    default, gemma = packaged_models.rows()
    assert (default.name, default.is_default, default.licence) == (
        "smollm2-135m",
        True,
        "Apache-2.0",
    )
    assert (gemma.name, gemma.is_default, gemma.licence) == (
        "gemma-3-270m",
        False,
        "Gemma Terms of Use",
    )
    assert gemma.terms is not None and default.terms is None
    assert (default.download_bytes, gemma.download_bytes) == (92_871_040, 238_175_024)
    assert {row.state for row in packaged_models.rows()} == {"not fetched"}
    assert default.folder == tmp_path / "cache" / "models" / "smollm2-135m"
    assert not (tmp_path / "cache").exists()


def test_the_cache_is_the_users_own_unless_the_environment_names_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TASKVEC_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert packaged_models.rows()[0].folder.is_relative_to(tmp_path / "taskvec-harness")
    monkeypatch.setenv("TASKVEC_CACHE", "~/models")
    assert packaged_models.rows()[0].folder.is_relative_to(Path.home() / "models")


def test_importing_the_module_imports_no_heavy_library() -> None:
    script = (
        "import sys; from harness_ext import packaged_models; packaged_models.rows(); "
        "print({'torch', 'transformers', 'tokenizers', 'numpy', 'gguf', 'tqdm'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_refetching_repairs_a_damaged_model(seeded: PackagedModel) -> None:
    folder = packaged_models.path("tiny")
    (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(UsageError, match=r"model\.safetensors has 0 bytes"):
        packaged_models.path("tiny")
    assert packaged_models.refetch("tiny") == folder
    assert packaged_models.path("tiny") == folder


def test_files_of_the_model_have_the_permissions_of_any_new_file(
    seeded: PackagedModel, tmp_path: Path
) -> None:
    (tmp_path / "usual").touch()
    files = packaged_models.path("tiny").iterdir()
    modes = {file.name: stat.filemode(file.stat().st_mode) for file in files}
    assert set(modes.values()) == {stat.filemode((tmp_path / "usual").stat().st_mode)}, modes


def test_fetching_is_silent_where_standard_error_is_no_terminal(
    tiny: PackagedModel, capfd: pytest.CaptureFixture[str]
) -> None:
    packaged_models.path("tiny")
    assert capfd.readouterr() == ("", "")


def test_fetching_shows_its_progress_on_a_terminal(
    tiny: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
    with open(terminal, "w") as screen:
        monkeypatch.setattr(sys, "stderr", screen)
        packaged_models.path("tiny")
        screen.flush()
        shown = os.read(controller, 1 << 16).decode()
    os.close(controller)
    assert "downloading tiny: 100%" in shown
    assert "converting: 100%" in shown
