from __future__ import annotations

import torch
from tokenizers import pre_tokenizers

from harness_ext.steering.fingerprint import fingerprint, tensor_hash, tokenizer_hash
from tests.models import tiny_model, tiny_tokenizer


def test_the_hash_of_a_tensor_depends_on_its_values_shape_and_dtype_alone() -> None:
    tensor = torch.arange(6.0).view(2, 3)
    same = torch.arange(6.0).view(3, 2).T.contiguous().T.reshape(2, 3).requires_grad_()
    hashes = [
        tensor_hash(tensor),
        tensor_hash(tensor.view(3, 2)),
        tensor_hash(tensor.bfloat16()),
        tensor_hash(tensor + 1e-6),
        tensor_hash(tensor.view(torch.int32)),
    ]
    assert len(set(hashes)) == len(hashes)
    assert tensor_hash(same) == tensor_hash(tensor)


def test_the_hash_of_a_tensor_is_that_of_its_values_in_any_memory_layout() -> None:
    tensor = torch.arange(6.0).view(2, 3)
    assert tensor_hash(tensor.T.contiguous().T) == tensor_hash(tensor)


def test_tokenizers_of_different_vocabularies_have_different_hashes() -> None:
    hashes = {
        tokenizer_hash(tiny_tokenizer(kind)) for kind in ("split", "joined", "after", "words")
    }
    assert len(hashes) == 4
    assert tokenizer_hash(tiny_tokenizer("split")) in hashes


def test_tokenizers_of_one_vocabulary_that_cut_text_differently_have_different_hashes() -> None:
    plain, other = tiny_tokenizer("joined"), tiny_tokenizer("joined")
    other.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(" ", "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    assert other.get_vocab() == plain.get_vocab()
    assert tokenizer_hash(other) != tokenizer_hash(plain)


def test_special_tokens_count() -> None:
    plain, other = tiny_tokenizer("split"), tiny_tokenizer("split")
    other.pad_token = other.eos_token
    assert tokenizer_hash(other) != tokenizer_hash(plain)


def test_models_of_one_architecture_differ_by_their_unembedding() -> None:
    tokenizer = tiny_tokenizer("split")
    one, two = (fingerprint(tiny_model("llama", seed=seed), tokenizer) for seed in (0, 1))
    assert one["architecture"] == two["architecture"] == "LlamaForCausalLM"
    assert one["tokenizer_sha256"] == two["tokenizer_sha256"]
    assert one["unembedding_sha256"] != two["unembedding_sha256"]
    assert one == fingerprint(tiny_model("llama", seed=0), tokenizer)
