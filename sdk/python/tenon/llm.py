"""A model that is open, and what it can be asked."""

import math
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

from . import _tenon, absent, prompts
from .errors import BusyError, InvalidArgumentError, UnsupportedError
from .open_model import LoRARequest, OpenModel, Question, Tokenizer, adapter_setting, nothing_asked
from .outputs import (BeamSearchOutput, BeamSearchSequence, CompletionOutput, Delta, EmbeddingOutput,
                      EmbeddingRequestOutput, PromptScore, RequestOutput, ScoringOutput, ScoringRequestOutput, shown_text)
from .pooling_params import normalised
from .sampling_params import BeamSearchParams, SamplingParams


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
            self._ready = [Delta(index, shown_text(self._question.params, text), ids) for index, text, ids in pieces]
        return self._ready.pop(0)

    def cancel(self) -> None:
        """Ends it soon. What has been made until then still comes."""
        self._call.cancel()


class LLM(OpenModel):
    """A model and its pipeline, opened.

    model: a folder or a GGUF file; None = the bundled one.
    pipeline: a TOML file, the name of a bundled pipeline, or TOML itself; None = the bundled default.
    threads: workers of the executor. max_calls: requests that have not ended at the same time, 1024 by default.
    digests: whether answers have a `digest` of the logits that they were drawn from, which takes time.
    settings: tables of the pipeline file, such as `scheduler="static"`, `kv_cache={"dtype": "i8"}`,
    `limits={"max_sequences": 8}`; and vLLM's `max_model_len`, `max_num_seqs`, `max_num_batched_tokens`, `seed` and
    `enable_prefix_caching`. docs/python.md lists what else of vLLM's is taken.

    Errors: `TenonError` with everything that is wrong, each fault a line.
    """

    def __init__(self, model: Any = None, **settings: Any):
        super().__init__(model, **settings)
        self._queued: list[tuple[Question, str]] = []  # what was enqueued, and its id
        self._queued_lock = threading.Lock()

    @classmethod
    def from_engine_args(cls, engine_args: Any) -> "LLM":
        """Of `EngineArgs`."""
        return cls(**vars(engine_args))

    def get_world_size(self, include_dp: bool = True) -> int:
        """How many processes run the model: this one."""
        return 1

    def generate(self, prompts: Any, sampling_params: SamplingParams | Sequence[SamplingParams] | None = None, *,
                 use_tqdm: Any = True, lora_request: Any = None, priority: int | Sequence[int] | None = None,
                 tokenization_kwargs: Mapping | None = None, mm_processor_kwargs: Mapping | None = None) -> list[RequestOutput]:
        """Answers prompts, all at once, and returns their outputs in the same order.

        A prompt is a text, a list of token ids, `{"prompt": …}` or `{"prompt_token_ids": …}`; a list holds several.
        sampling_params: one for all, or one for each; None = what the pipeline and the model say, as `tenon run`.
        use_tqdm: whether there is a bar of progress, or what makes one. priority: the lowest runs first, where the scheduler
        looks at it; one for all, or one for each. The last two are vLLM's, and refused if they ask for something.
        Errors: `TenonError`; where one prompt is refused, none is answered.
        """
        questions = self._completion_questions(prompts, sampling_params, lora_request, priority, tokenization_kwargs,
                                               mm_processor_kwargs)
        return self._answers(questions, use_tqdm)

    def chat(self, messages: Sequence, sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
             use_tqdm: Any = True, lora_request: Any = None, priority: int | Sequence[int] | None = None,
             chat_template: str | None = None, chat_template_content_format: str = "auto",
             add_generation_prompt: bool = True, continue_final_message: bool = False, tools: Sequence | None = None,
             chat_template_kwargs: Mapping | None = None, tokenization_kwargs: Mapping | None = None,
             mm_processor_kwargs: Mapping | None = None) -> list[RequestOutput]:
        """Likewise for one conversation or a list of them, through the model's own chat template.

        messages and tools are as OpenAI's API has them. Calls of tools are part of the text. chat_template and the last
        two are vLLM's, and refused if they ask for something.
        """
        questions = self._chat_questions(messages, sampling_params, lora_request, priority, chat_template,
                                         chat_template_content_format, add_generation_prompt, continue_final_message, tools,
                                         chat_template_kwargs, tokenization_kwargs, mm_processor_kwargs)
        return self._answers(questions, use_tqdm)

    def enqueue(self, prompts: Any, sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
                lora_request: Any = None, priority: int | Sequence[int] | None = None, use_tqdm: Any = True,
                tokenization_kwargs: Mapping | None = None, mm_processor_kwargs: Mapping | None = None) -> list[str]:
        """As `generate`, but returns at once, with the ids of the requests; `wait_for_completion` has their outputs."""
        return self._queue_up(self._completion_questions(prompts, sampling_params, lora_request, priority,
                                                         tokenization_kwargs, mm_processor_kwargs))

    def enqueue_chat(self, messages: Sequence, sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
                     use_tqdm: Any = True, lora_request: Any = None, priority: int | Sequence[int] | None = None,
                     chat_template: str | None = None, chat_template_content_format: str = "auto",
                     add_generation_prompt: bool = True, continue_final_message: bool = False,
                     tools: Sequence | None = None, chat_template_kwargs: Mapping | None = None,
                     tokenization_kwargs: Mapping | None = None, mm_processor_kwargs: Mapping | None = None) -> list[str]:
        """Likewise for conversations, as `chat`."""
        return self._queue_up(self._chat_questions(messages, sampling_params, lora_request, priority, chat_template,
                                                   chat_template_content_format, add_generation_prompt,
                                                   continue_final_message, tools, chat_template_kwargs, tokenization_kwargs,
                                                   mm_processor_kwargs))

    def wait_for_completion(self, output_type: Any = None, *, use_tqdm: Any = True) -> list[RequestOutput]:
        """The outputs of all that was enqueued since the last time, in that order. output_type is vLLM's: it changes nothing."""
        with self._queued_lock:
            queued, self._queued = self._queued, []
        found = self._run([question for question, _ in queued], use_tqdm)
        return [self._output(question, call, number) for (question, call), (_, number) in zip(found, queued, strict=True)]

    def _completion_questions(self, prompts, sampling_params, lora_request, priority, tokenization_kwargs,
                              mm_processor_kwargs) -> list[Question]:
        nothing_asked(tokenization_kwargs=tokenization_kwargs, mm_processor_kwargs=mm_processor_kwargs)
        pairs = _each(_prompts(prompts), lora_request)
        self._has_adapters(lora for _, lora in pairs)
        return self._asked([self._question(one, lora) for one, lora in pairs], sampling_params, priority)

    def _chat_questions(self, messages, sampling_params, lora_request, priority, chat_template, chat_template_content_format,
                        add_generation_prompt, continue_final_message, tools, chat_template_kwargs, tokenization_kwargs,
                        mm_processor_kwargs) -> list[Question]:
        nothing_asked(chat_template=chat_template, tokenization_kwargs=tokenization_kwargs,
                      mm_processor_kwargs=mm_processor_kwargs)
        if chat_template_content_format not in ("auto", "string", "openai"):
            raise InvalidArgumentError(f"chat_template_content_format is {chat_template_content_format!r} – it must be auto, "
                                       "string or openai")
        all_messages = [messages] if _one_conversation(messages) else messages
        pairs = _each(all_messages, lora_request)
        self._has_adapters(lora for _, lora in pairs)
        questions = [self._chat_question(one, tools, chat_template_kwargs, add_generation_prompt, continue_final_message,
                                         lora) for one, lora in pairs]
        return self._asked(questions, sampling_params, priority)

    def beam_search(self, prompts: Any, params: BeamSearchParams, lora_request: Any = None, use_tqdm: Any = False,
                    concurrency_limit: int | None = None,
                    priority: int | Sequence[int] | None = None) -> list[BeamSearchOutput]:
        """The likeliest answers to each prompt, `params.beam_width` of them.

        Beams are ranked by the log probability of the answer / its length to the power `length_penalty`.
        concurrency_limit: how many prompts are searched for at once; None = all that have room.
        """
        if not isinstance(params, BeamSearchParams):
            raise InvalidArgumentError(f"params are {params!r} – give BeamSearchParams")
        if params.temperature not in (0.0, 1.0):
            raise UnsupportedError(f"temperature is {params.temperature!r} – beams are searched by the model's own log "
                                   "probabilities – leave it out")
        made = SamplingParams(beams=params.beam_width, n=params.beam_width, max_tokens=params.max_tokens,
                              ignore_eos=params.ignore_eos, length_penalty=params.length_penalty, temperature=1.0, logprobs=0,
                              include_stop_str_in_output=params.include_stop_str_in_output,
                              structured_outputs=params.structured_outputs, allowed_token_ids=params.allowed_token_ids)
        given = _prompts(prompts)
        size = concurrency_limit or len(given) or 1
        outputs = []
        for start in range(0, len(given), size):
            lora, turn = (part[start:start + size] if isinstance(part, (list, tuple)) else part
                          for part in (lora_request, priority))
            outputs += self.generate(given[start:start + size], made, use_tqdm=use_tqdm, lora_request=lora, priority=turn)
        return [BeamSearchOutput([self._beam(output, one, params.skip_special_tokens) for one in output.outputs])
                for output in outputs]

    def _beam(self, output: RequestOutput, one: CompletionOutput, skip_special_tokens: bool) -> BeamSearchSequence:
        tokens = output.prompt_token_ids + one.token_ids
        text = self.current_engine().decode(tokens, not skip_special_tokens)
        return BeamSearchSequence(tokens, one.cumulative_logprob, text, one.logprobs, one.finish_reason, one.stop_reason,
                                  one.lora_request)

    def stream(self, prompt: Any, sampling_params: SamplingParams | None = None, *, lora_request: Any = None) -> Stream:
        """One prompt, or one conversation, whose answer comes in pieces."""
        self._has_adapters([lora_request])
        if isinstance(prompt, Sequence) and prompt and isinstance(prompt[0], Mapping):
            question = self._chat_question(prompt, None, None, True, False, lora_request)
        else:
            question = self._question(prompt, lora_request)
        self._ask_answer(question, sampling_params, streams=True)
        return Stream(self, question, self.submit(question), self._next_id())

    def embed(self, prompts: Any, *, use_tqdm: Any = True, lora_request: Any = None, pooling: str | None = None,
              normalise: bool | None = None, pooling_params: Any = None,
              tokenization_kwargs: Mapping | None = None) -> list[EmbeddingRequestOutput]:
        """Prompts as vectors. pooling: "last", "mean" or "first"; what is None is as the model's files want it.

        pooling_params are vLLM's for the same. tokenization_kwargs are vLLM's, and refused if they ask for something.
        """
        nothing_asked(tokenization_kwargs=tokenization_kwargs)
        settings = embedding_settings(pooling, normalised(pooling_params, normalise))
        return [EmbeddingRequestOutput(self._next_id(), EmbeddingOutput(call.values()), question.ids)
                for question, call in self._values(prompts, _tenon.EMBEDDING, settings, use_tqdm, lora_request)]

    def score(self, prompts: Any, others: Any = None, *, use_tqdm: Any = True, lora_request: Any = None,
              pooling_params: Any = None, tokenization_kwargs: Mapping | None = None,
              chat_template: str | None = None) -> list[PromptScore] | list[ScoringRequestOutput]:
        """How likely prompts are, token by token.

        With `others`, as in vLLM: how alike each pair of texts is, by the cosine of their vectors. One prompt is held
        against each of several others, or as many against as many.
        """
        nothing_asked(tokenization_kwargs=tokenization_kwargs, chat_template=chat_template)
        normalised(pooling_params, None)  # a cosine is the same of vectors of any length
        if others is not None:
            return self._alike(_prompts(prompts), _prompts(others), use_tqdm, lora_request)
        return [PromptScore(self._next_id(), question.ids, call.values())
                for question, call in self._values(prompts, _tenon.SCORE, [], use_tqdm, lora_request)]

    def asked(self, prompt: Any, params: SamplingParams | None, lora: Any = None, priority: int = 0) -> Question:
        """For `tenon.engine`: one prompt as a request whose answer comes in pieces."""
        self._has_adapters([lora])
        question = self._question(prompt, lora)
        self._ask_answer(question, params, streams=True, priority=priority)
        return question

    def submitted(self, question: Question, bell: _tenon.Bell, number: int) -> _tenon.Call:
        """For `tenon.engine`: a request that runs, and rings."""
        while True:
            try:
                return self.submit(question, bell, number)
            except BusyError:
                time.sleep(0.01)

    def output_of(self, question: Question, call: _tenon.Call, request_id: str) -> RequestOutput:
        """For `tenon.engine`: of a request that has ended."""
        return self._output(question, call, request_id)

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _alike(self, ones: list, others: list, use_tqdm, lora_request) -> list[ScoringRequestOutput]:
        if len(ones) not in (1, len(others)) or not others:
            raise InvalidArgumentError(f"there are {len(ones)} and {len(others)} texts to hold against each other – give one "
                                       "and several, or as many and as many")
        found = self.embed(ones + others, use_tqdm=use_tqdm, lora_request=lora_request, normalise=True)
        firsts, seconds = found[:len(ones)], found[len(ones):]
        made = []
        for place, second in enumerate(seconds):
            first = firsts[place if len(ones) > 1 else 0]
            cosine = math.fsum(float(a) * float(b) for a, b in zip(first.outputs.embedding, second.outputs.embedding,
                                                                  strict=True))
            made.append(ScoringRequestOutput(self._next_id(), ScoringOutput(cosine),
                                             first.prompt_token_ids + second.prompt_token_ids))
        return made

    def _asked(self, questions: list[Question], sampling_params, priority) -> list[Question]:
        turns = _priorities(priority, len(questions))
        shared: dict[int, list] = {}
        for question, params, turn in zip(questions, _params(sampling_params, len(questions)), turns, strict=True):
            self._ask_answer(question, params, streams=False, priority=turn, shared=shared)
        return questions

    def _queue_up(self, questions: list[Question]) -> list[str]:
        made = [(question, self._next_id()) for question in questions]
        for question, _ in made:
            try:
                question.call = self.submit(question)
            except BusyError:
                pass  # it waits for its turn until somebody waits for it
        with self._queued_lock:
            self._queued += made
        return [number for _, number in made]

    def _answers(self, questions, use_tqdm) -> list[RequestOutput]:
        return [self._output(question, call, self._next_id()) for question, call in self._run(questions, use_tqdm)]

    def _values(self, given, want, settings, use_tqdm, lora_request):
        questions = [self._question(one, lora) for one, lora in _each(_prompts(given), lora_request)]
        for question in questions:
            question.asked.want = want
            question.asked.settings = settings + adapter_setting(question.lora)
        for question, call in self._run(questions, use_tqdm):
            call.check_end()
            yield question, call

    def _run(self, questions: list[Question], use_tqdm: Any) -> list[tuple[Question, _tenon.Call]]:
        """All of them, ended. If anything is raised meanwhile, the calls are dropped, which cancels them."""
        calls: list[_tenon.Call] = []
        waited = 0  # calls that have ended, from the first on
        with _progress(len(questions), use_tqdm) as step:
            for question in questions:
                while True:
                    try:
                        calls.append(question.call or self.submit(question))
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
    """tqdm's bar, where tqdm is installed, or that of a function like it."""

    def __init__(self, total: int, wanted: Any):
        self._bar = None
        if callable(wanted):
            self._bar = wanted(total=total, desc="Processed prompts")
        elif wanted and total > 1:
            try:
                self._bar = _tqdm()(total=total, desc="Processed prompts")
            except ImportError:
                return

    def __enter__(self):
        return self._bar.update if self._bar is not None else lambda: None

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.close()


_importing = threading.Lock()


def _tqdm():
    """In a notebook without widgets it warns when it is imported, and has a bar of text."""
    with _importing:
        if "tqdm.auto" not in sys.modules:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import tqdm.auto  # noqa: F401
    from tqdm.auto import tqdm
    return tqdm


def _prompts(given: Any) -> list:
    if not isinstance(given, Iterable):
        raise InvalidArgumentError(f"prompts are {given!r} – give a text, token ids, a dict with one of them, or a list")
    if isinstance(given, Iterator):
        given = list(given)  # it can be looked at once only
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
    if given is None or isinstance(given, SamplingParams) or not isinstance(given, Iterable) or isinstance(given, Mapping):
        return [given] * count  # whatever else it is, each is refused
    given = list(given)
    if len(given) != count:
        raise InvalidArgumentError(f"there are {count} prompts and {len(given)} of sampling_params")
    return given


def _priorities(given: Any, count: int) -> list[int]:
    if given is None or isinstance(given, Integral):
        return [given or 0] * count
    given = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    wrong = next((one for one in given if isinstance(one, bool) or not isinstance(one, Integral)), None)
    if wrong is not None:
        raise InvalidArgumentError(f"priority is {wrong!r} – it must be a whole number, or a list of them")
    if len(given) != count:
        raise InvalidArgumentError(f"there are {count} prompts and {len(given)} of priority")
    return given


def embedding_settings(pooling: str | None, normalise: bool | None) -> list[tuple[str, str]]:
    made = [] if pooling is None else [("pooling", str(pooling))]
    return made if normalise is None else made + [("normalise", "true" if normalise else "false")]


absent.refuse_methods(LLM, absent.METHODS)

__all__ = ["LLM", "CompletionOutput", "LoRARequest", "Stream", "Tokenizer"]
