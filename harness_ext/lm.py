"""`taskvec-hf`: lm-eval's Hugging Face model, steered while it answers."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import normalize_gen_kwargs
from torch import Tensor
from transformers import PreTrainedModel

import harness_ext
from harness_ext import packaged_models
from harness_ext.arguments import check_unknown
from harness_ext.config import AUTO, SteeringConfig, parse_model_args
from harness_ext.errors import UsageError
from harness_ext.methods import REGISTRY, Bench, Method
from harness_ext.steering.anatomy import dissect
from harness_ext.steering.fingerprint import fingerprint
from harness_ext.steering.inject import Injection, inject
from harness_ext.steering.prompts import EncodedPrompt, PromptEncoder
from harness_ext.steering.rows import RowPlan, Wave, waves
from harness_ext.steering.task_context import TaskContext, context_of, watch_tasks

watch_tasks()


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
        self.steering, rest = parse_model_args(kwargs)
        self._loading = rest
        if not isinstance(pretrained, PreTrainedModel):
            pretrained = packaged_models.resolve(pretrained)
        self._wave: Wave | None = None
        self._records: dict[str, dict[str, Any]] = {}
        self._method: Method | None = None
        super().__init__(pretrained, device=device or _best_device(), **rest)
        if self.steering.steered:
            self._method = REGISTRY[self.steering.method](self._bench())

    def _get_config(self, pretrained: str, **kwargs: Any) -> None:
        """Load the model's configuration, and refuse what it already shows to be wrong."""
        try:
            super()._get_config(pretrained, **kwargs)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"pretrained={pretrained} cannot be loaded: {error} Accepted: a model folder, a "
                f"hub name, or packaged:NAME with NAME out of {', '.join(packaged_models.MODELS)}."
            ) from error
        check_unknown(self._loading, self._config)
        _check_layer(self.steering, self._config)

    def _bench(self) -> Bench:
        return Bench(
            anatomy=dissect(self.model),
            encoder=PromptEncoder(self.tokenizer, self.tok_encode, self.steering.cue),
            config=self.steering,
            max_length=self.max_length,
            progress=self.rank == 0,
        )

    # ---- requests ---------------------------------------------------------------------------

    def generate_until(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[str]:
        """Continue each prompt, steered once at its cue; see lm-eval's `LM.generate_until`."""
        run = super().generate_until
        if self._method is None:
            return run(requests, disable_tqdm=disable_tqdm)
        plans = self._plan(requests, self._generation_prompt)
        return self._in_waves(requests, plans, lambda part: run(part, disable_tqdm=disable_tqdm))

    def loglikelihood(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Score each continuation under the steered prompt; see lm-eval's `LM.loglikelihood`."""
        run = super().loglikelihood
        if self._method is None:
            return run(requests, disable_tqdm=disable_tqdm)
        plans = self._plan(requests, self._scored_prompt)
        return self._in_waves(requests, plans, lambda part: run(part, disable_tqdm=disable_tqdm))

    def loglikelihood_rolling(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """Perplexity of whole texts: unsteered only, for they have no cue."""
        if self._method is not None:
            names = ", ".join(sorted({str(r.task_name) for r in requests}))
            raise UsageError(
                f"method={self.steering.method} injects at a cue, and loglikelihood_rolling "
                f"({names}) scores whole texts that have none. Run these tasks with method=none."
            )
        return super().loglikelihood_rolling(requests, disable_tqdm=disable_tqdm)

    def _plan(
        self, requests: Sequence[Instance], encode: Callable[[Instance], EncodedPrompt]
    ) -> list[RowPlan]:
        """The fed ids of every request with its injection, task by task."""
        assert self._method is not None
        by_task: dict[str, list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            by_task[str(request.task_name)].append(number)
        plans: dict[int, RowPlan] = {}
        for name, numbers in by_task.items():
            context = context_of(name)
            for number in numbers:
                _refuse_empty_query(context, requests[number], self.steering.cue)
            prompts = [encode(requests[number]) for number in numbers]
            plan = self._method.plan(context, [requests[number].doc for number in numbers])
            self._records[name] = plan.record
            for number, prompt, injection in zip(numbers, prompts, plan.injections, strict=True):
                plans[number] = RowPlan(prompt.ids, ((prompt.cue, injection),))
        return [plans[number] for number in range(len(requests))]

    def _generation_prompt(self, request: Instance) -> EncodedPrompt:
        context, gen_kwargs = request.args
        new = normalize_gen_kwargs(gen_kwargs, self.max_gen_toks)["max_gen_toks"]
        return self._method.bench.encoder.prompt(context).cut(self.max_length - new)

    def _scored_prompt(self, request: Instance) -> EncodedPrompt:
        whole = self._method.bench.encoder.with_answer(*request.args)
        fed = EncodedPrompt(whole.text, whole.ids[:-1], whole.cue)
        return fed.cut(self.max_length)

    def _in_waves(
        self,
        requests: list[Instance],
        plans: Sequence[RowPlan],
        run: Callable[[list[Instance]], list[Any]],
    ) -> list[Any]:
        """Answers in the order of the requests, run in waves that tell their rows apart."""
        answers: dict[int, Any] = {}
        for wave in waves(plans):
            with self._during(wave):
                found = run([requests[number] for number in wave.requests])
            answers.update(zip(wave.requests, found, strict=True))
        return [answers[number] for number in range(len(requests))]

    @contextmanager
    def _during(self, wave: Wave | None) -> Any:
        before, self._wave = self._wave, wave
        try:
            yield
        finally:
            self._wave = before

    # ---- forwards ---------------------------------------------------------------------------

    def _model_call(self, inps: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Logits of a batch padded on the right, with the running wave's injections."""
        if self._wave is None:
            return super()._model_call(inps, *args, **kwargs)
        edits = self._wave.edits(inps)
        with inject(self._method.bench.anatomy, edits, len(inps)):
            return super()._model_call(inps, *args, **kwargs)

    def _model_generate(self, context: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Continuations of a batch padded on the left, with the running wave's injections."""
        if self._wave is None:
            return super()._model_generate(context, *args, **kwargs)
        edits = self._wave.edits(context, kwargs["attention_mask"])
        with inject(self._method.bench.anatomy, edits, len(context)):
            return super()._model_generate(context, *args, **kwargs)

    def _detect_batch_size(self, *args: Any, **kwargs: Any) -> int:
        """lm-eval probes memory with dummy ids, which carry no injection."""
        with self._during(None):
            return super()._detect_batch_size(*args, **kwargs)

    # ---- lm-eval's bookkeeping ----------------------------------------------------------------

    def set_cache_hook(self, cache_hook: Any) -> None:
        """Refuse lm-eval's response cache while steering: it knows a request by its text alone."""
        if self.steering.steered:
            raise UsageError(
                f"--use_cache cannot be combined with method={self.steering.method}: lm-eval "
                "stores answers by the prompt's text alone, so answers of another task, draw or "
                "vector with the same prompt would be returned. Drop --use_cache."
            )
        super().set_cache_hook(cache_hook)

    def apply_chat_template(self, *args: Any, **kwargs: Any) -> str:
        """Render a chat; a tokenizer without a template is refused by name."""
        if not self.tokenizer.chat_template:
            raise UsageError(
                f"--apply_chat_template was given, but the tokenizer of {self.pretrained} has no "
                "chat template. Drop the option or pass a tokenizer that has one."
            )
        return super().apply_chat_template(*args, **kwargs)

    def get_model_info(self) -> dict[str, Any]:
        """lm-eval's model information, and under `steering` all that was done to the model."""
        info = dict(super().get_model_info())
        info["steering"] = {
            "version": harness_ext.__version__,
            "arguments": vars(self.steering) | {},
            "tasks": self._records,
        }
        if self.steering.steered:
            info["steering"]["model"] = fingerprint(self.model, self.tokenizer)
        return info


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _check_layer(steering: SteeringConfig, config: Any) -> None:
    n_layers = getattr(config.get_text_config(), "num_hidden_layers", None)
    if n_layers is None or steering.layer == AUTO or not steering.steered:
        return
    if int(steering.layer) >= n_layers:
        raise UsageError(
            f"layer={steering.layer} is out of range: the model has {n_layers} layers, 0 to "
            f"{n_layers - 1}. Pass one of these, or layer=auto."
        )


def _refuse_empty_query(context: TaskContext, request: Instance, cue: str) -> None:
    if not context.text(request.doc).replace(cue, "").strip():
        raise UsageError(
            f"document {request.doc_id} of task {context.name!r} has an empty query; there is "
            "nothing to answer. Remove the document."
        )
