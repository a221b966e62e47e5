"""`taskvec-hf`: lm-eval's Hugging Face model, steered while it answers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import normalize_gen_kwargs
from torch import Tensor
from transformers import PreTrainedModel

import harness_ext
from harness_ext import checks, packaged_models
from harness_ext.arguments import check_unknown
from harness_ext.config import parse_model_args
from harness_ext.errors import UsageError
from harness_ext.methods import REGISTRY, Bench, Memory, Method
from harness_ext.planning import Encode, plan_requests
from harness_ext.rows import RowPlan, Wave, waves
from harness_ext.running import steering
from harness_ext.steering.anatomy import Anatomy, dissect
from harness_ext.steering.prompts import EncodedPrompt, PromptEncoder
from harness_ext.steering.task_context import watch_tasks

watch_tasks()

Answer = TypeVar("Answer")


class TaskVectorLM(HFLM):
    """A Hugging Face causal language model that a task vector steers at inference.

    Takes every argument of lm-eval's `hf` and those of :class:`SteeringConfig`. Without
    `pretrained` it runs the default packaged model; `pretrained=packaged:NAME` names another.
    With `method=none` every answer is that of stock `hf`.
    """

    def __init__(
        self,
        pretrained: str | PreTrainedModel | None = None,
        device: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.steering, self._loading = parse_model_args(kwargs)
        self._anatomy: Anatomy | None = None
        self._memory = Memory()
        self._method: Method | None = None
        self._wave: Wave | None = None
        self._records: dict[str, dict[str, Any]] = {}
        self._reported = False
        self._asked = _name(pretrained)
        checks.check_vector_paths(self.steering)
        if isinstance(pretrained, PreTrainedModel):
            self._check_against(pretrained.config)
        else:
            pretrained = packaged_models.resolve(pretrained)
        super().__init__(pretrained, device=device or _best_device(), **self._loading)
        self._steer()

    def with_steering(self, **arguments: Any) -> TaskVectorLM:
        """The same loaded model under other steering arguments, which start from their defaults.

        States that were read for development episodes are shared between such models, so they have
        to be used before the weights change. Raises :class:`UsageError` as the constructor does.
        """
        other = copy.copy(self)
        other.steering, rest = parse_model_args(arguments)
        if rest:
            raise UsageError(
                f"with_steering changes steering arguments alone, not {', '.join(rest)}; load "
                "another model for these."
            )
        checks.check_model(other.steering, self._config)
        checks.check_vector_paths(other.steering)
        other._method, other._records, other._reported = None, {}, False
        other._steer()
        self._anatomy = other._anatomy
        return other

    def _steer(self) -> None:
        if self.steering.steered:
            self._anatomy = self._anatomy or dissect(self.model)
            self._method = REGISTRY[self.steering.method](self._bench(self._anatomy))

    def _get_config(self, pretrained: str, **kwargs: Any) -> None:
        """Load the model's configuration, and refuse what it already shows to be wrong."""
        with checks.loading(pretrained):
            super()._get_config(pretrained, **kwargs)
        self._check_against(self._config)

    def _create_tokenizer(
        self, pretrained: str | PreTrainedModel, tokenizer: Any, *args: Any, **kwargs: Any
    ) -> None:
        named = next((n for n in (tokenizer, pretrained) if isinstance(n, str)), "the model")
        argument = "tokenizer" if tokenizer else "pretrained"
        with checks.loading(named, argument):
            super()._create_tokenizer(pretrained, tokenizer, *args, **kwargs)

    def _create_model(self, pretrained: str, *args: Any, **kwargs: Any) -> None:
        with checks.loading(pretrained):
            super()._create_model(pretrained, *args, **kwargs)

    def _check_against(self, config: Any) -> None:
        check_unknown(self._loading, config)
        checks.check_model(self.steering, config)

    def _bench(self, anatomy: Anatomy) -> Bench:
        return Bench(
            anatomy=anatomy,
            encoder=PromptEncoder(self.tokenizer, self.tok_encode, self.steering.cue),
            config=self.steering,
            max_length=self.max_length,
            name=self._asked,
            revision=str(self.revision),
            max_gen_toks=self.max_gen_toks,
            rank=self.rank,
            world_size=self.world_size,
            memory=self._memory,
        )

    # ---- requests ---------------------------------------------------------------------------

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Continue each prompt, steered once at its cue; see lm-eval's `LM.generate_until`."""
        run = partial(super().generate_until, disable_tqdm=disable_tqdm)
        return self._answer(requests, run, self._generation_prompt)

    def loglikelihood(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Score each continuation under the steered prompt; see lm-eval's `LM.loglikelihood`."""
        run = partial(super().loglikelihood, disable_tqdm=disable_tqdm)
        return self._answer(requests, run, self._scored_prompt)

    def loglikelihood_rolling(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """Perplexity of whole texts: unsteered only, for they have no cue."""
        names = {str(request.task_name) for request in requests}
        checks.check_output_type(self.steering, checks.ROLLING, names)
        scores: list[float] = super().loglikelihood_rolling(requests, disable_tqdm=disable_tqdm)
        return scores

    def _answer(
        self,
        requests: list[Instance],
        run: Callable[[list[Instance]], list[Answer]],
        encode: Encode,
    ) -> list[Answer]:
        """What `run` answers, in waves that tell rows apart; `encode` gives the ids it feeds."""
        if self._method is None:
            return run(requests)
        if self._reported:  # another evaluation begins
            self._records, self._reported = {}, False
            self._memory.clear()
        plans, records = plan_requests(self._method, requests, encode)
        self._records.update(records)
        answers: dict[int, Answer] = {}
        with self._settled_batch_size(plans):
            for wave in waves(plans):
                with self._during(wave):
                    found = run([requests[number] for number in wave.requests])
                answers.update(zip(wave.requests, found, strict=True))
        return [answers[number] for number in range(len(requests))]

    def _generation_prompt(
        self, encoder: PromptEncoder, request: Instance, cues: int
    ) -> EncodedPrompt:
        context, gen_kwargs = request.args
        new = normalize_gen_kwargs(gen_kwargs, self.max_gen_toks)["max_gen_toks"]
        if new >= self.max_length:
            raise UsageError(
                f"max_gen_toks={new} leaves no room for a prompt in max_length={self.max_length}. "
                "Lower max_gen_toks (--gen_kwargs) or raise max_length."
            )
        prompt = encoder.prompt(context, cues)
        limit = self.tokenizer.model_max_length
        if self.truncation and len(prompt.ids) > limit:
            raise UsageError(
                f"truncation=True lets the tokenizer cut a prompt of {len(prompt.ids)} tokens to "
                f"{limit}, and the cue with it. Drop it: a prompt that is too long for the model "
                "loses its beginning instead."
            )
        return prompt.cut(self.max_length - new)

    def _scored_prompt(self, encoder: PromptEncoder, request: Instance, cues: int) -> EncodedPrompt:
        context, continuation = request.args
        return encoder.with_answer(context, continuation, cues).fed(self.max_length)

    # ---- forwards ---------------------------------------------------------------------------

    def _model_call(self, inps: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Logits of a batch padded on the right, steered as the running wave is."""
        with self._steering(inps):
            logits: Tensor = super()._model_call(inps, *args, **kwargs)
        return logits

    def _model_generate(self, context: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Continuations of a batch padded on the left, steered as the running wave is."""
        with self._steering(context, kwargs["attention_mask"]):
            ids: Tensor = super()._model_generate(context, *args, **kwargs)
        return ids

    def _steering(self, ids: Tensor, mask: Tensor | None = None) -> AbstractContextManager[None]:
        if self._method is None or self._wave is None:
            return nullcontext()
        return steering(self._method.bench, self._wave, ids, mask)

    @contextmanager
    def _during(self, wave: Wave) -> Iterator[None]:
        self._wave = wave
        try:
            yield
        finally:
            self._wave = None

    @contextmanager
    def _settled_batch_size(self, plans: Sequence[RowPlan]) -> Iterator[None]:
        """Settle `batch_size=auto` once, by the longest row of all.

        lm-eval would probe memory anew in every wave, with dummy ids that carry no injection; and
        processes, which meet in each probe, may have unequally many waves.
        """
        if self.batch_size != "auto":
            yield
            return
        longest = max((plan.ids for plan in plans), key=len, default=())
        self.batch_size_per_gpu = self._detect_batch_size([(None, [*longest, 0], [])])
        self.batch_sizes = {0: self.batch_size_per_gpu}
        try:
            yield
        finally:
            self.batch_size_per_gpu = "auto"

    # ---- lm-eval's bookkeeping ----------------------------------------------------------------

    def set_cache_hook(self, cache_hook: Any) -> None:
        """Refuse lm-eval's response cache while steering: it knows a request by its text alone."""
        checks.check_response_cache(self.steering)
        super().set_cache_hook(cache_hook)

    def apply_chat_template(self, *args: Any, **kwargs: Any) -> str:
        """Render a chat; a tokenizer without a template is refused by name."""
        checks.check_chat_template(self.tokenizer, self.pretrained)
        chat: str = super().apply_chat_template(*args, **kwargs)
        return chat

    def get_model_info(self) -> dict[str, Any]:
        """lm-eval's model information, and under `steering` all that was done to the model.

        lm-eval asks for it when an evaluation ends; the next one's tasks are told anew.
        """
        self._reported = True
        info = dict(super().get_model_info())
        info["steering"] = {
            "version": harness_ext.__version__,
            "arguments": self.steering.said(),
            "tasks": self._records,
        }
        if self._method is not None:
            info["steering"]["model"] = self._method.bench.fingerprint()
        return info


def _name(pretrained: str | PreTrainedModel | None) -> str:
    """The model as it was asked for."""
    if isinstance(pretrained, PreTrainedModel):
        return str(pretrained.config.name_or_path)
    return pretrained or packaged_models.PREFIX + packaged_models.DEFAULT


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
