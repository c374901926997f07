"""An open model, and a request before it is submitted: what `LLM` and `AsyncLLM` share."""

import itertools
import json
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from . import _tenon, absent, prompts
from .errors import InvalidArgumentError, TenonError, UnsupportedError
from .opening import opening, overrides
from .outputs import PromptLogprobs, RequestOutput, completion_of
from .sampling_params import SamplingParams
from .tokenizer import Tokenizer
from .vllm_settings import check_weights


class LoRARequest:
    """A low-rank adapter (a PEFT folder): one of those that the pipeline was opened with, as in
    `LLM(adapters={"poems": FOLDER})`, or, with `LLM(enable_lora=True)`, any that `lora_path` leads to."""

    def __init__(self, lora_name: str, lora_int_id: int = 0, lora_path: str = "", **asked: Any):
        wanted = sorted(name for name, value in asked.items() if value)
        if wanted:
            raise UnsupportedError(f"{', '.join(wanted)} of a LoRARequest has no counterpart here – an adapter is a name and a "
                                   "folder")
        self.lora_name, self.lora_int_id, self.lora_path = lora_name, lora_int_id, lora_path

    @property
    def name(self) -> str:
        return self.lora_name

    @property
    def path(self) -> str:
        return self.lora_path

    @property
    def adapter_id(self) -> int:
        return self.lora_int_id

    def __eq__(self, other: object) -> bool:
        """As in vLLM, an adapter is its name."""
        return isinstance(other, LoRARequest) and self.lora_name == other.lora_name

    def __hash__(self) -> int:
        return hash(self.lora_name)

    def __repr__(self) -> str:
        return f"LoRARequest({self.lora_name!r}, {self.lora_int_id!r}, {self.lora_path!r})"


class Question:
    """A request before it is submitted."""

    def __init__(self, asked: _tenon.Asked, ids: list[int], text: str | None, lora: Any):
        self.asked, self.ids, self.text, self.lora = asked, ids, text, lora
        self.params: SamplingParams | None = None
        self.call: _tenon.Call | None = None  # where it was submitted before somebody waits for it
        self.engine: _tenon.Engine | None = None  # that it was submitted to, which stays open for it


class OpenModel:
    """What `LLM` and `AsyncLLM` share. Any number of threads may use one."""

    def __init__(self, model=None, *, pipeline=None, threads=None, max_calls=None, plugin_path=(), enable_lora=False,
                 digests=False, **settings: Any):
        self._opening = opening(model, pipeline, threads, max_calls, plugin_path, settings, digests)
        self._engine = _tenon.Engine(self._opening)
        self._facts = self._engine.facts()
        try:
            check_weights(self._facts["model"], settings.get("dtype"), settings.get("quantization"))
        except TenonError:
            self._engine.close()
            raise
        self._numbers = itertools.count()
        # Folders of adapters by name, where requests may bring their own; else None.
        self._adapters: dict[str, str] | None = {} if enable_lora else None
        self._adapters_lock = threading.Lock()

    @property
    def model(self) -> str:
        """The path that the model was read from."""
        return self._facts["model"]

    @property
    def max_model_len(self) -> int:
        """Tokens that a prompt and its answer can have together."""
        return self._facts["context_tokens"]

    @property
    def numerics(self) -> str:
        """Pipelines of equal numerics give equal bits."""
        return self._facts["numerics"]

    @property
    def pipeline_hash(self) -> str:
        """Of the configuration with every default spelled out."""
        return self._facts["pipeline_hash"]

    def current_engine(self) -> _tenon.Engine:
        """The one that new requests go to."""
        if self._adapters is None:
            return self._engine
        with self._adapters_lock:
            return self._engine

    def submit(self, question: "Question", bell: _tenon.Bell | None = None, number: int = 0) -> _tenon.Call:
        """Runs a request. Errors: BusyError where there is no room for one more, and other `TenonError`s."""
        question.engine = self.current_engine()
        return _tenon.Call(question.engine, question.asked, bell, number)

    def get_tokenizer(self) -> Tokenizer:
        return Tokenizer(self)

    def close(self) -> None:
        """Cancels what has not ended, and frees the model. It may be called twice."""
        self.current_engine().close()

    def __getattr__(self, name: str):
        absent.refuse_part(type(self).__name__, name)

    def __reduce_ex__(self, _: Any):
        raise UnsupportedError(f"{type(self).__name__} cannot be copied or sent to another process – open one there")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r}, max_model_len={self.max_model_len}, numerics={self.numerics!r})"

    def get_default_sampling_params(self) -> SamplingParams:
        """What the model's own `generation_config.json` advises; vLLM's defaults where it says nothing."""
        path = Path(self.model) / "generation_config.json"
        advice = json.loads(path.read_text()) if path.is_file() else {}
        given = {name: advice[name] for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
                 if advice.get(name) is not None}
        if advice.get("max_new_tokens") is not None:
            given["max_tokens"] = advice["max_new_tokens"]
        return SamplingParams(**given)

    def _has_adapters(self, loras: Iterable[Any]) -> None:
        """Loads adapters that requests bring along. For that the model is opened again, beside the one that was open if
        requests still run there."""
        if self._adapters is None:
            return
        brought = {one.lora_name: one.lora_path for one in loras if getattr(one, "lora_path", "")}
        with self._adapters_lock:
            new = {name: path for name, path in brought.items() if name not in self._adapters}
            other = next((name for name, path in brought.items() if self._adapters.get(name, path) != path), None)
            if other is not None:
                raise InvalidArgumentError(f"the adapter {other!r} was loaded from {self._adapters[other]} – give the one "
                                           f"of {brought[other]} another name")
            if not new:
                return
            self._engine.facts()  # says so if it is closed
            # Where nothing runs, it is freed before there is another: two would need the memory of two.
            self._engine = None
            before = list(self._opening.overrides)
            try:
                self._opening.overrides = before + overrides({"adapters": new})
                self._engine = _tenon.Engine(self._opening)
                self._adapters.update(new)
            except BaseException:
                self._opening.overrides = before
                self._engine = _tenon.Engine(self._opening)
                raise

    def _question(self, prompt: Any, lora: Any) -> Question:
        asked = prompts.asked_for(prompt)
        text = asked.text
        if text is None and isinstance(prompt, Mapping):
            text = prompt.get("prompt")
        return self._encoded(asked, text, lora)

    def _encoded(self, asked: _tenon.Asked, text: str | None, lora: Any) -> Question:
        """As tokens, which outputs have, too."""
        ids = asked.tokens if asked.tokens is not None else self.current_engine().encode(asked)
        made = _tenon.Asked()
        made.tokens = ids
        return Question(made, ids, text, lora)

    def _chat_question(self, messages, tools, data, add_generation_prompt, continue_final_message, lora) -> Question:
        asked = prompts.asked_in_chat(messages, tools, data, add_generation_prompt, continue_final_message)
        question = self._encoded(asked, None, lora)
        question.text = self.current_engine().decode(question.ids, True)
        return question

    def _ask_answer(self, question: Question, params: SamplingParams | None, streams: bool, priority: int = 0,
                    shared: dict[int, list] | None = None) -> None:
        """`shared` has the settings of parameters that several questions have, by their `id`."""
        if params is not None and not isinstance(params, SamplingParams):
            raise InvalidArgumentError(f"sampling_params are {params!r} – give SamplingParams, or a list of them")
        question.params = params
        settings = None if shared is None else shared.get(id(params))
        if settings is None:
            settings = [] if params is None else params.settings(self.max_model_len - len(question.ids))
            if shared is not None and (params is None or params.max_tokens is not None):
                shared[id(params)] = settings
        turn = [("priority", str(priority))] if priority else []
        question.asked.settings = settings + turn + adapter_setting(question.lora)
        question.asked.streams = streams

    def _text_of(self, token: int) -> str | None:
        return None if token < 0 else self.current_engine().decode([token], True)

    def _output(self, question: Question, call: _tenon.Call, request_id: str) -> RequestOutput:
        """Of a call that has ended. Errors: what it failed with."""
        call.check_end()
        params = question.params
        text_of = self._text_of if params is None or params.detokenize else _no_text
        answers = [call.answer(i) for i in range(call.answer_count())]
        outputs = [completion_of(call, i, answer, params, text_of) for i, answer in enumerate(answers)]
        for one in outputs:
            one.lora_request = question.lora
        scored = None
        if params is not None and params.prompt_logprobs is not None:
            scored = PromptLogprobs(question.ids[1:], call.alternatives(None), params.prompt_logprobs, text_of)
        cached = answers[0]["reused_tokens"] if answers else None
        return RequestOutput(request_id, question.text, question.ids, scored, outputs, True, lora_request=question.lora,
                             num_cached_tokens=cached)

    def _next_id(self) -> str:
        return str(next(self._numbers))


def nothing_asked(**given: Any) -> None:
    """Parameters of vLLM's that Tenon has no counterpart for."""
    for name, value in given.items():
        if value:
            raise UnsupportedError(f"{name} is {value!r} – Tenon has no counterpart for it (docs/python.md) – leave it out")


# What vLLM's engines take with a request, beside what is named here.
_OF_REQUESTS = ("tokenization_kwargs", "priority", "data_parallel_rank", "session_id", "reasoning_ended",
                "reasoning_parser_kwargs")


def nothing_else_asked(method: str, given: Mapping[str, Any]) -> None:
    """Likewise, of a request. Raises TypeError for a name that vLLM has not."""
    unknown = next((name for name in given if name not in _OF_REQUESTS), None)
    if unknown is not None:
        raise TypeError(f"{method}() got an unexpected keyword argument {unknown!r}")
    nothing_asked(**given)


def _no_text(token: int) -> None:
    """Without `detokenize`, tokens have no texts."""


def adapter_setting(lora: Any) -> list[tuple[str, str]]:
    return [] if lora is None else [("adapter", str(getattr(lora, "lora_name", lora)))]
