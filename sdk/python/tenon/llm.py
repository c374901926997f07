"""A model that is open, and what it can be asked."""

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import _tenon, prompts
from .errors import BusyError, InvalidArgumentError
from .opening import opening
from .outputs import (CompletionOutput, Delta, EmbeddingOutput, EmbeddingRequestOutput, PromptLogprobs, PromptScore,
                      RequestOutput, completion_of)
from .sampling_params import SamplingParams


class LoRARequest:
    """A low-rank adapter, one of those that the pipeline was opened with: `LLM(adapters={"poems": FOLDER})`."""

    def __init__(self, lora_name: str, lora_int_id: int = 0, lora_path: str = ""):
        self.lora_name, self.lora_int_id, self.lora_path = lora_name, lora_int_id, lora_path

    def __repr__(self) -> str:
        return f"LoRARequest({self.lora_name!r})"


class Tokenizer:
    """The model's own tokenizer and chat template."""

    def __init__(self, engine: _tenon.Engine):
        self._engine = engine

    def encode(self, text: str) -> list[int]:
        """The tokens of a prompt, with what the model puts around it."""
        return self._engine.encode(prompts.asked_for(text))

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Their text. What is no UTF-8 is shown as U+FFFD."""
        return self._engine.decode(prompts.asked_for(token_ids).tokens, not skip_special_tokens)

    def apply_chat_template(self, messages: Sequence[Mapping], tools: Sequence | None = None,
                            add_generation_prompt: bool = False, continue_final_message: bool = False,
                            tokenize: bool = True, **template_data: Any) -> list[int] | str:
        ids = self._engine.encode(prompts.asked_in_chat(messages, tools, template_data, add_generation_prompt,
                                                        continue_final_message))
        return ids if tokenize else self._engine.decode(ids, True)


class Question:
    """A request before it is submitted."""

    def __init__(self, asked: _tenon.Asked, ids: list[int], text: str | None, lora: Any):
        self.asked, self.ids, self.text, self.lora = asked, ids, text, lora
        self.params: SamplingParams | None = None


class OpenModel:
    """What `LLM` and `AsyncLLM` share. Any number of threads may use one."""

    def __init__(self, model=None, *, pipeline=None, threads=None, max_calls=None, plugin_path=(), **settings: Any):
        self._engine = _tenon.Engine(opening(model, pipeline, threads, max_calls, plugin_path, settings))
        self._facts = self._engine.facts()
        self._numbers = itertools.count()

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

    def get_tokenizer(self) -> Tokenizer:
        return Tokenizer(self._engine)

    def close(self) -> None:
        """Cancels what has not ended, and frees the model. It may be called twice."""
        self._engine.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r}, max_model_len={self.max_model_len}, numerics={self.numerics!r})"

    def _question(self, prompt: Any, lora: Any) -> Question:
        asked = prompts.asked_for(prompt)
        text = asked.text
        if text is None and isinstance(prompt, Mapping):
            text = prompt.get("prompt")
        return self._encoded(asked, text, lora)

    def _encoded(self, asked: _tenon.Asked, text: str | None, lora: Any) -> Question:
        """As tokens, which outputs have, too."""
        ids = asked.tokens if asked.tokens is not None else self._engine.encode(asked)
        made = _tenon.Asked()
        made.tokens = ids
        return Question(made, ids, text, lora)

    def _chat_question(self, messages, tools, data, add_generation_prompt, continue_final_message, lora) -> Question:
        asked = prompts.asked_in_chat(messages, tools, data, add_generation_prompt, continue_final_message)
        question = self._encoded(asked, None, lora)
        question.text = self._engine.decode(question.ids, True)
        return question

    def _ask_answer(self, question: Question, params: SamplingParams | None, streams: bool) -> None:
        question.params = params
        room = self.max_model_len - len(question.ids)
        settings = [] if params is None else params.settings(room)
        question.asked.settings = settings + _adapter(question.lora)
        question.asked.streams = streams

    def _text_of(self, token: int) -> str | None:
        return None if token < 0 else self._engine.decode([token], True)

    def _output(self, question: Question, call: _tenon.Call, request_id: str) -> RequestOutput:
        """Of a call that has ended. Errors: what it failed with."""
        call.check_end()
        params = question.params
        entries = None if params is None else params.logprobs
        stops = () if params is None else params.stop_token_ids
        outputs = [completion_of(call, i, entries, self._text_of, stops) for i in range(call.answer_count())]
        for one in outputs:
            one.lora_request = question.lora
        scored = None
        if params is not None and params.prompt_logprobs is not None:
            scored = PromptLogprobs(question.ids[1:], call.alternatives(None), params.prompt_logprobs, self._text_of)
        cached = call.answer(0)["reused_tokens"] if outputs else None
        return RequestOutput(request_id, question.text, question.ids, scored, outputs, True, cached, question.lora)

    def _next_id(self) -> str:
        return str(next(self._numbers))


class Stream:
    """An answer as it is made: an iterator of `Delta`. `output` has the whole of it once it has ended."""

    def __init__(self, owner: OpenModel, question: Question, call: _tenon.Call, request_id: str):
        self._owner, self._question, self._call, self._id = owner, question, call, request_id
        self._ready: list[Delta] = []
        self._ended = False
        self.output: RequestOutput | None = None

    def __iter__(self) -> Iterator[Delta]:
        return self

    def __next__(self) -> Delta:
        while not self._ready:
            if self._ended:
                if self.output is None:
                    self.output = self._owner._output(self._question, self._call, self._id)
                raise StopIteration
            self._call.wait_for_news()
            pieces, self._ended = self._call.take()
            self._ready = [Delta(*piece) for piece in pieces]
        return self._ready.pop(0)

    def cancel(self) -> None:
        """Ends it soon. What has been made until then still comes."""
        self._call.cancel()


class LLM(OpenModel):
    """A model and its pipeline, opened.

    model: a folder or a GGUF file; None = the bundled one.
    pipeline: a TOML file, the name of a bundled pipeline, or TOML itself; None = the bundled default.
    threads: workers of the executor. max_calls: requests that have not ended at the same time, 1024 by default.
    settings: tables of the pipeline file, such as `scheduler="static"`, `kv_cache={"dtype": "i8"}`,
    `limits={"max_sequences": 8}`; and vLLM's `max_model_len`, `max_num_seqs`, `max_num_batched_tokens`, `seed` and
    `enable_prefix_caching`. docs/python.md lists what else of vLLM's is taken.

    Errors: `TenonError` with everything that is wrong, each fault a line.
    """

    def generate(self, prompts: Any, sampling_params: SamplingParams | Sequence[SamplingParams] | None = None, *,
                 use_tqdm: bool = True, lora_request: Any = None) -> list[RequestOutput]:
        """Answers prompts, all at once, and returns their outputs in the same order.

        A prompt is a text, a list of token ids, `{"prompt": …}` or `{"prompt_token_ids": …}`; a list holds several.
        sampling_params: one for all, or one for each; None = what the pipeline and the model say, as `tenon run`.
        Errors: `TenonError`; where one prompt is refused, none is answered.
        """
        return self._answers([self._question(one, lora) for one, lora in _each(_prompts(prompts), lora_request)],
                             sampling_params, use_tqdm)

    def chat(self, messages: Sequence, sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
             use_tqdm: bool = True, lora_request: Any = None, *, add_generation_prompt: bool = True,
             continue_final_message: bool = False, tools: Sequence | None = None,
             chat_template_kwargs: Mapping | None = None) -> list[RequestOutput]:
        """Likewise for one conversation or a list of them, through the model's own chat template.

        messages and tools are as OpenAI's API has them. Calls of tools are part of the text.
        """
        all_messages = [messages] if _one_conversation(messages) else messages
        questions = [self._chat_question(one, tools, chat_template_kwargs, add_generation_prompt, continue_final_message,
                                         lora) for one, lora in _each(all_messages, lora_request)]
        return self._answers(questions, sampling_params, use_tqdm)

    def stream(self, prompt: Any, sampling_params: SamplingParams | None = None, *, lora_request: Any = None) -> Stream:
        """One prompt, or one conversation, whose answer comes in pieces."""
        if isinstance(prompt, Sequence) and prompt and isinstance(prompt[0], Mapping):
            question = self._chat_question(prompt, None, None, True, False, lora_request)
        else:
            question = self._question(prompt, lora_request)
        self._ask_answer(question, sampling_params, streams=True)
        return Stream(self, question, _tenon.Call(self._engine, question.asked), self._next_id())

    def embed(self, prompts: Any, *, use_tqdm: bool = True, lora_request: Any = None, pooling: str | None = None,
              normalise: bool | None = None) -> list[EmbeddingRequestOutput]:
        """Prompts as vectors. pooling: "last", "mean" or "first"; what is None is as the model's files want it."""
        settings = _embedding_settings(pooling, normalise)
        return [EmbeddingRequestOutput(self._next_id(), EmbeddingOutput(call.values()), question.ids)
                for question, call in self._values(prompts, _tenon.EMBEDDING, settings, use_tqdm, lora_request)]

    def score(self, prompts: Any, *, use_tqdm: bool = True, lora_request: Any = None) -> list[PromptScore]:
        """How likely prompts are, token by token."""
        return [PromptScore(self._next_id(), question.ids, call.values())
                for question, call in self._values(prompts, _tenon.SCORE, [], use_tqdm, lora_request)]

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _answers(self, questions, sampling_params, use_tqdm) -> list[RequestOutput]:
        for question, params in zip(questions, _params(sampling_params, len(questions)), strict=True):
            self._ask_answer(question, params, streams=False)
        return [self._output(question, call, self._next_id()) for question, call in self._run(questions, use_tqdm)]

    def _values(self, given, want, settings, use_tqdm, lora_request):
        questions = [self._question(one, lora) for one, lora in _each(_prompts(given), lora_request)]
        for question in questions:
            question.asked.want = want
            question.asked.settings = settings + _adapter(question.lora)
        for question, call in self._run(questions, use_tqdm):
            call.check_end()
            yield question, call

    def _run(self, questions: list[Question], use_tqdm: bool) -> list[tuple[Question, _tenon.Call]]:
        """All of them, ended. If anything is raised meanwhile, the calls are dropped, which cancels them."""
        calls: list[_tenon.Call] = []
        waited = 0  # calls that have ended, from the first on
        with _progress(len(questions), use_tqdm) as step:
            for question in questions:
                while True:
                    try:
                        calls.append(_tenon.Call(self._engine, question.asked))
                        break
                    except BusyError:
                        if waited < len(calls):
                            calls[waited].wait()
                            waited += 1
                            step()
                        else:
                            time.sleep(0.01)  # the room is taken by calls of other threads
            for call in calls[waited:]:
                call.wait()
                step()
        return list(zip(questions, calls, strict=True))


class _progress:
    """tqdm's bar, where tqdm is installed."""

    def __init__(self, total: int, wanted: bool):
        self._bar = None
        if wanted and total > 1:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self._bar = tqdm(total=total, desc="Processed prompts")

    def __enter__(self):
        return self._bar.update if self._bar is not None else lambda: None

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.close()


def _prompts(given: Any) -> list:
    if not isinstance(given, Iterable):
        raise InvalidArgumentError(f"prompts are {given!r} – give a text, token ids, a dict with one of them, or a list")
    return [given] if prompts.is_one_prompt(given) else list(given)


def _one_conversation(messages: Any) -> bool:
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise InvalidArgumentError("messages must be a list of messages, or a list of such lists")
    return prompts.is_one_conversation(messages)


def _each(given: Sequence, lora_request: Any) -> list[tuple[Any, Any]]:
    loras = list(lora_request) if isinstance(lora_request, (list, tuple)) else [lora_request] * len(given)
    if len(loras) != len(given):
        raise InvalidArgumentError(f"there are {len(given)} prompts and {len(loras)} of lora_request")
    return list(zip(given, loras, strict=True))


def _params(given: Any, count: int) -> list[SamplingParams | None]:
    if given is None or isinstance(given, SamplingParams):
        return [given] * count
    given = list(given)
    if len(given) != count:
        raise InvalidArgumentError(f"there are {count} prompts and {len(given)} of sampling_params")
    return given


def _adapter(lora: Any) -> list[tuple[str, str]]:
    return [] if lora is None else [("adapter", getattr(lora, "lora_name", lora))]


def _embedding_settings(pooling: str | None, normalise: bool | None) -> list[tuple[str, str]]:
    made = [] if pooling is None else [("pooling", pooling)]
    return made if normalise is None else made + [("normalise", "true" if normalise else "false")]


__all__ = ["LLM", "CompletionOutput", "LoRARequest", "Stream", "Tokenizer"]
