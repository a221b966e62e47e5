"""What is seen to be wrong with the model and its arguments before it loads."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from harness_ext import packaged_models, preflight
from harness_ext.errors import UsageError
from tests.models import save_tiny
from tests.preflight.conftest import arguments, message_of

OPEN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
CLOSED = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"


def test_steering_arguments_are_checked() -> None:
    assert "layer=deep" in message_of(model_args={"layer": "deep"})


def test_arguments_of_other_models_are_not_ours_to_check() -> None:
    preflight.check(arguments(model="hf", model_args={"layer": "deep"}))


def test_an_unknown_packaged_model_is_named() -> None:
    assert "gpt-9" in message_of(model_args={"pretrained": "packaged:gpt-9"})


def test_a_missing_model_folder_is_named(tmp_path: Path, model: Path) -> None:
    missing = str(tmp_path / "missing")
    assert missing in message_of(model_args={"pretrained": missing})
    preflight.check(arguments(model_args={"pretrained": str(model)}))
    preflight.check(arguments(model_args={"pretrained": "org/model"}))


def test_a_folder_that_holds_no_model_is_named(tmp_path: Path) -> None:
    message = message_of(model_args={"pretrained": str(tmp_path)})
    assert f"pretrained={tmp_path} cannot be loaded" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"layer": 4}, "layer=4 is out of range: the model has 4 layers, 0 to 3"),
        (
            {"method": "none", "ablate": "tr", "head_fraction": 0.98},
            "head_fraction=0.98 knocks out all 16 heads of the model",
        ),
        ({"layr": 2}, "unknown argument layr=2 in --model_args. Did you mean layer?"),
    ],
)
def test_arguments_are_checked_against_the_models_configuration(
    given: dict[str, Any], said: str, model: Path
) -> None:
    assert said in message_of(model_args={"pretrained": str(model), **given})
    preflight.check(arguments(model_args={"pretrained": str(model), "rms_norm_eps": 1e-6}))


@pytest.mark.parametrize("pretrained", [None, "packaged:smollm2-135m"])
def test_a_packaged_model_is_checked_where_it_is_ready_and_never_fetched(
    pretrained: str | None, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"layer": 4, **({"pretrained": pretrained} if pretrained else {})}
    preflight.check(arguments(model_args=given))
    row = packaged_models.rows()[0]
    ready = type(row)(**{**vars(row), "state": "ready", "folder": model})
    monkeypatch.setattr(packaged_models, "rows", lambda: (ready,))
    assert "0 to 3" in message_of(model_args=given)


def test_the_response_cache_is_refused_for_steered_methods_alone(model: Path) -> None:
    given = {"pretrained": str(model)}
    assert "--use_cache cannot" in message_of(model_args=given, use_cache="answers")
    unsteered = {**given, "method": None}
    preflight.check(arguments(model_args=unsteered, use_cache="answers"))


def with_template(folder: Path, template: str | None) -> str:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    ("template", "said"),
    [(None, "has no chat template"), (CLOSED, "'</user>' stands between the cue"), (OPEN, None)],
    ids=["none", "closing tags", "open"],
)
@pytest.mark.parametrize("argument", ["pretrained", "tokenizer"])
def test_a_chat_has_to_leave_the_cue_at_the_end(
    argument: str, template: str | None, said: str | None, model: Path, tmp_path: Path
) -> None:
    chatty = with_template(save_tiny(tmp_path / "chatty"), template)
    given = arguments(
        model_args={"pretrained": str(model), argument: chatty}, apply_chat_template=True
    )
    if said is None:
        preflight.check(given)
    else:
        with pytest.raises(UsageError, match=said):
            preflight.check(given)
