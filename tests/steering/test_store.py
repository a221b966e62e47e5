"""Vectors as files: what is written comes back, and nothing else is taken for it."""

from __future__ import annotations

import os
import pickle
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from harness_ext.errors import UsageError
from harness_ext.steering.store import (
    check_readable,
    check_writable,
    file_name,
    load,
    path_of,
    save,
)
from harness_ext.steering.vector_file import VectorFile
from tests.vector_files import header, sealed, vectors, write

Content = dict[str, Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a sound file."""
    path = tmp_path / "sound.safetensors"
    save(path, VectorFile(vectors(), header()))
    return path


def content(**settings: Any) -> Content:
    """What a sound file's metadata holds, without its checksum."""
    return {
        "format": 1,
        "header": {**asdict(header()), **settings},
        "shape": [3, 2, 4],
        "sha256": "",
    }


# ---- saving and loading -------------------------------------------------------------------------


def test_what_is_saved_comes_back_to_the_last_bit(tmp_path: Path) -> None:
    tensor = vectors()
    tensor[0, 0] = torch.tensor([-0.0, 1e-45, torch.finfo(torch.float32).max, 1 / 3])
    saved = header(mode="add", strength=0.1, template={"text": "→ \ud800 \x1b", "at": {"n": [1]}})
    save(tmp_path / "new" / "folder" / "file", VectorFile(tensor, saved))
    found = load(tmp_path / "new" / "folder" / "file")
    assert torch.equal(found.vectors.view(torch.int32), tensor.view(torch.int32))
    assert found.vectors.dtype == torch.float32
    assert found.header == saved


def test_a_vector_in_another_memory_layout_is_saved_by_its_values(tmp_path: Path) -> None:
    tensor = vectors(4, 2, 3).permute(2, 1, 0)
    save(tmp_path / "file", VectorFile(tensor.requires_grad_(), header()))
    assert torch.equal(load(tmp_path / "file").vectors, tensor)


def test_a_reusable_vector_has_one_item_and_no_documents(tmp_path: Path) -> None:
    save(tmp_path / "file", VectorFile(vectors(1), header(documents=None)))
    assert load(tmp_path / "file").header.documents is None


def test_the_same_vectors_make_the_same_bytes(path: Path) -> None:
    others = [path.with_name(f"{number}") for number in range(5)]
    for other in others:
        save(other, VectorFile(vectors(), header()))
    assert {other.read_bytes() for other in others} == {path.read_bytes()}


def test_other_programs_read_the_vectors(path: Path) -> None:
    assert torch.equal(load_file(path)["vectors"], vectors())


def test_the_format_is_the_documented_one(tmp_path: Path) -> None:
    file = write(tmp_path / "file", sealed(content(), vectors()), vectors())
    assert torch.equal(load(file).vectors, vectors())
    assert load(file).header == header()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_vectors_that_are_not_finite_are_not_saved(path: Path, value: float) -> None:
    tensor = vectors()
    tensor[1, 0, 3] = value
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"forward_upper.*NaN or infinity \(item 1, cue 0\)"):
        save(path, VectorFile(tensor, header()))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("tensor", "settings"),
    [
        (vectors().double(), {}),
        (vectors()[0], {}),
        (vectors(3, 0), {}),
        (vectors(2), {}),
        (vectors(3), {"documents": None}),
        (vectors(2), {"documents": ["c" * 64] * 2}),
        (vectors(), {"strength": 2.0}),
        (vectors(), {"mode": "add"}),
        (vectors(), {"record": {"accuracy": float("nan")}}),
    ],
)
def test_what_is_no_vector_file_is_a_programming_error(
    tmp_path: Path, tensor: torch.Tensor, settings: dict[str, Any]
) -> None:
    with pytest.raises(ValueError) as caught:
        save(tmp_path / "file", VectorFile(tensor, header(**settings)))
    assert not isinstance(caught.value, UsageError)
    assert list(tmp_path.iterdir()) == []


def test_a_crash_before_the_file_is_whole_leaves_the_old_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        save(path, VectorFile(vectors() + 1, header()))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file_and_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, write_bytes = path.read_bytes(), Path.write_bytes

    def half(self: Path, data: bytes) -> int:
        write_bytes(self, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(UsageError, match=r"cannot be written to .*No space left on device"):
        save(path, VectorFile(vectors() + 1, header()))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_saving_below_a_file_is_refused(path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written to"):
        save(path / "below", VectorFile(vectors(), header()))


def test_saving_over_a_folder_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(UsageError, match="cannot be written to"):
        save(folder, VectorFile(vectors(), header()))
    assert list(tmp_path.iterdir()) == [folder]


# ---- refusals -----------------------------------------------------------------------------------


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.safetensors does not exist"):
        load(tmp_path / "nowhere.safetensors")


def test_a_folder_is_refused_with_its_files(path: Path) -> None:
    with pytest.raises(UsageError, match=r"is a folder; name one of its files: sound\.safetensors"):
        load(path.parent)


def test_a_name_that_cannot_be_opened_is_refused_with_the_reason(tmp_path: Path) -> None:
    for check in (load, check_readable):
        with pytest.raises(UsageError, match="cannot be read: File name too long"):
            check(tmp_path / ("x" * 300))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_named(path: Path) -> None:
    path.chmod(0)
    with pytest.raises(UsageError, match="cannot be read: Permission denied"):
        load(path)


def test_a_file_cut_anywhere_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for length in (*range(10), *range(10, len(whole), 11)):
        path.write_bytes(whole[:length])
        with pytest.raises(UsageError, match="not a vector file that can be used"):
            load(path)


def test_a_cut_file_is_called_truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UsageError, match="truncated or damaged"):
        load(path)


def test_a_file_with_any_byte_changed_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for position in (*range(10), *range(10, len(whole), 7)):
        changed = bytearray(whole)
        changed[position] ^= 0x80 if position % 2 else 0x01
        path.write_bytes(changed)
        with pytest.raises(UsageError, match="not a vector file that can be used"):
            load(path)


def test_tampering_is_found(path: Path) -> None:
    whole = path.read_bytes()
    assert whole.count(b"forward_upper") == 1
    for changed in (whole.replace(b"forward_upper", b"forward_lower"), whole[:-1] + b"\x40"):
        path.write_bytes(changed)
        with pytest.raises(UsageError, match="checksum does not fit"):
            load(path)


exploded: list[bool] = []


class Bomb:
    """Says when it is unpickled."""

    def __reduce__(self) -> Any:
        return explode, ()


def explode() -> None:
    exploded.append(True)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_recognised_and_never_read(path: Path, protocol: int) -> None:
    path.write_bytes(pickle.dumps([Bomb(), "x" * 100], protocol))
    with pytest.raises(UsageError, match=r"this is a pickle .* reads safetensors only"):
        load(path)
    assert not exploded


@pytest.mark.parametrize("zipped", [True, False])
def test_what_torch_saves_is_recognised(path: Path, zipped: bool) -> None:
    torch.save({"vectors": vectors()}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(UsageError, match=r"this is a pickle .* reads safetensors only"):
        load(path)


@pytest.mark.parametrize(
    ("data", "message"), [(b"", "it is empty"), (b"just some text, no more", "not safetensors")]
)
def test_other_files_are_refused(path: Path, data: bytes, message: str) -> None:
    path.write_bytes(data)
    with pytest.raises(UsageError, match=message):
        load(path)


def test_safetensors_of_others_are_refused(path: Path) -> None:
    for metadata in (None, {"format": "pt"}):
        save_file({"vectors": vectors()}, path, metadata=metadata)
        with pytest.raises(UsageError, match="taskvec has not written it"):
            load(path)
    write(path, content(), vectors(), name="weights")
    with pytest.raises(UsageError, match="taskvec has not written it"):
        load(path)


def test_a_newer_format_is_named_whatever_else_it_changed(path: Path) -> None:
    write(path, {"format": 2, "kopf": {}}, vectors())
    with pytest.raises(UsageError, match=r"newer taskvec.*in format 2.*reads format 1\. Upgrade"):
        load(path)


@pytest.mark.parametrize("number", [None, 0, True, "1", 1.0])
def test_a_format_that_is_no_number_from_1_is_refused(path: Path, number: Any) -> None:
    write(path, {**content(), "format": number}, vectors())
    with pytest.raises(UsageError, match="no format number"):
        load(path)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1]", "null", '{"format": NaN}', '{"format": 1e999}', "[" * 100_000, "9" * 10_000],
)
def test_a_header_that_is_no_json_object_is_refused(path: Path, text: str) -> None:
    write(path, text, vectors())
    with pytest.raises(UsageError, match=r"its header is not (a )?JSON"):
        load(path)


@pytest.mark.parametrize("name", asdict(header()))
def test_every_field_is_needed_and_has_its_type(path: Path, name: str) -> None:
    lacking = content()
    del lacking["header"][name]
    write(path, lacking, vectors())
    with pytest.raises(UsageError, match=f"header lacks {name}"):
        load(path)
    for wrong in (True, -1.5, [None], {"a": [1]} if name not in ("template", "record") else 1):
        if name == "strength" and wrong == -1.5:
            continue
        write(path, content(**{name: wrong}), vectors())
        with pytest.raises(UsageError, match=f"header's {name} is not "):
            load(path)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("layer", -1),
        ("mode", "multiply"),
        ("dtype", "nn"),
        ("dtype", "int33"),
        ("documents", ["abc"] * 3),
        ("fingerprint", {"architecture": 1}),
    ],
)
def test_a_field_out_of_range_is_refused(path: Path, name: str, wrong: Any) -> None:
    write(path, content(**{name: wrong}), vectors())
    with pytest.raises(UsageError, match=f"header's {name} is not "):
        load(path)


def test_an_unknown_field_is_refused(path: Path) -> None:
    write(path, content(colour="red"), vectors())
    with pytest.raises(UsageError, match="unknown fields: colour"):
        load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"header": None}, "header is not an object"),
        ({"shape": [3, 2, 5]}, r"says shape \[3, 2, 5\], its tensor has \[3, 2, 4\]"),
        ({"shape": None}, "says shape None"),
    ],
)
def test_a_header_that_disagrees_with_the_tensor_is_refused(
    path: Path, change: Content, message: str
) -> None:
    write(path, {**content(), **change}, vectors())
    with pytest.raises(UsageError, match=message):
        load(path)


@pytest.mark.parametrize(
    "tensor",
    [vectors().half(), vectors().to(torch.float8_e4m3fn), vectors()[0], vectors(3, 2, 0)],
)
def test_a_tensor_of_another_kind_is_refused(path: Path, tensor: torch.Tensor) -> None:
    write(path, {**content(), "shape": list(tensor.shape)}, tensor)
    with pytest.raises(UsageError, match="not float32"):
        load(path)


def test_as_many_vectors_as_documents_are_needed(path: Path) -> None:
    write(path, {**content(), "shape": [2, 2, 4]}, vectors(2))
    with pytest.raises(UsageError, match="2 vectors for 3 documents"):
        load(path)
    write(path, content(documents=None), vectors())
    with pytest.raises(UsageError, match="3 vectors for a reusable vector"):
        load(path)


def test_a_file_with_nan_under_a_fitting_checksum_is_refused(path: Path) -> None:
    tensor = vectors()
    tensor[2, 1, 0] = torch.nan
    write(path, sealed(content(), tensor), tensor)
    with pytest.raises(UsageError, match=r"NaN or infinity \(item 2, cue 1\)"):
        load(path)


# ---- early checks -------------------------------------------------------------------------------


def test_readable_are_a_sound_file_and_a_folder_of_files(path: Path, tmp_path: Path) -> None:
    check_readable(path)
    check_readable(path.parent)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="empty holds no vector files"):
        check_readable(tmp_path / "empty")
    with pytest.raises(UsageError, match="does not exist"):
        check_readable(tmp_path / "nowhere")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UsageError, match="truncated"):
        check_readable(path)


def test_writable_is_a_folder_there_or_to_be_made(path: Path, tmp_path: Path) -> None:
    check_writable(tmp_path)
    check_writable(tmp_path / "new" / "folder")
    assert list(tmp_path.iterdir()) == [path]
    for below in (path, path / "below"):
        with pytest.raises(UsageError, match=r"sound\.safetensors is a file"):
            check_writable(below)


def test_a_relative_folder_is_writable_where_the_process_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_writable(Path("vectors"))


def test_a_folder_that_may_not_be_written_is_not_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(dir: Path) -> None:
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    with pytest.raises(UsageError, match="vectors cannot be written"):
        check_writable(tmp_path / "vectors")


def test_a_link_to_nothing_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="link is a link to nothing"):
        check_writable(tmp_path / "link")


# ---- names --------------------------------------------------------------------------------------

_LONG = "x" * 10_000
_TASKS = [
    *("forward_upper", "a/b", "a%2Fb", "a\\b", "../x", "..", ".", ".x", "%2Ex", "x.", "a b", "a:b"),
    *("🎉", "é", "e\u0301", "\ud83c", "nul\0", "a\nb", "C:", "~", _LONG, f"{_LONG}y", f"{_LONG}x"),
]


def test_file_names_are_plain_and_stay_in_their_folder(tmp_path: Path) -> None:
    for task in _TASKS:
        name = file_name(task)
        assert len(name.encode()) <= 255
        assert not name.startswith(".")
        assert name.endswith(".safetensors")
        assert not set(name) & set("/\\:\0\n ~")
        assert (tmp_path / name).resolve().parent == tmp_path.resolve()
        (tmp_path / name).touch(exist_ok=False)


def test_file_names_differ_where_tasks_do() -> None:
    imitations = [file_name(task).removesuffix(".safetensors") for task in _TASKS]
    names = {file_name(task) for task in {*_TASKS, *imitations}}
    assert len(names) == len({*_TASKS, *imitations})


def test_an_ordinary_task_keeps_its_name() -> None:
    assert file_name("forward_upper") == "forward_upper.safetensors"
    assert file_name("a/b") == "a%2Fb.safetensors"


def test_the_path_of_a_task_is_the_file_itself_or_the_one_in_the_folder(tmp_path: Path) -> None:
    named = tmp_path / file_name("a/b")
    named.touch()
    assert path_of(tmp_path, "a/b") == named
    assert path_of(named, "another") == named


def test_a_folder_without_the_tasks_file_is_refused_with_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no forward_upper\.safetensors.*there are: none"):
        path_of(tmp_path, "forward_upper")
    for number in range(12):
        (tmp_path / f"t{number:02}.safetensors").touch()
    with pytest.raises(UsageError, match=r"t00\.safetensors, .*t09\.safetensors and 2 more"):
        path_of(tmp_path, "forward_upper")
