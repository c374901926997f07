"""The same for asyncio. The engine rings a descriptor that the event loop watches; no thread waits."""

import asyncio
import itertools
import weakref
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from . import _tenon, absent
from .errors import BusyError, TenonError
from .llm import embedding_settings
from .open_model import OpenModel, Question, adapter_setting, nothing_else_asked
from .outputs import CompletionOutput, EmbeddingOutput, EmbeddingRequestOutput, PromptScore, RequestOutput, shown_text
from .sampling_params import RequestOutputKind, SamplingParams
from .tokenizer import Tokenizer


# As the inbox of a thread's reader has it (sdk/python/src/inbox.cc): no answer wakes its reader more often.
_SHORTEST_GAP_S = 0.01


class _Listener:
    """The bell of one event loop, and who waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self.bell = _tenon.Bell()
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Event] = {}
        loop.add_reader(self.bell.fileno(), self._ring)

    def _ring(self) -> None:
        for number in self.bell.take():
            if number in self._waiting:
                self._waiting[number].set()

    def add(self) -> tuple[int, asyncio.Event]:
        number, event = next(self._numbers), asyncio.Event()
        self._waiting[number] = event
        return number, event

    def remove(self, number: int) -> None:
        self._waiting.pop(number, None)


class AsyncLLM(OpenModel):
    """`LLM` for coroutines. It takes the same parameters, and may be used from several event loops."""

    def __init__(self, model=None, **parameters: Any):
        super().__init__(model, **parameters)
        self._listeners: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._running: dict[str, _tenon.Call] = {}

    @classmethod
    def from_engine_args(cls, engine_args: Any, *_: Any, **__: Any) -> "AsyncLLM":
        """Of `AsyncEngineArgs`. What else vLLM has here, such as its usage context, changes nothing."""
        return cls(**vars(engine_args))

    def generate(self, prompt: Any, sampling_params: SamplingParams | None = None, request_id: str | None = None, *,
                 lora_request: Any = None, prompt_text: str | None = None, trace_headers: Mapping | None = None,
                 priority: int = 0, **asked: Any) -> AsyncIterator[RequestOutput]:
        """One prompt. Each output has all of the answers so far, or what `sampling_params.output_kind` says.

        Leaving the loop, or cancelling its task, cancels the request. Outputs before the last have no log
        probabilities. priority: the lowest runs first, where the scheduler looks at it. prompt_text and trace_headers are
        vLLM's and change nothing; what else it takes is refused if it asks for something.
        """
        nothing_else_asked("generate", asked)
        return self._answer(self._question(prompt, lora_request), sampling_params, request_id, priority)

    def chat(self, messages: Sequence[Mapping], sampling_params: SamplingParams | None = None,
                   request_id: str | None = None, *, lora_request: Any = None, add_generation_prompt: bool = True,
                   continue_final_message: bool = False, tools: Sequence | None = None,
                   chat_template_kwargs: Mapping | None = None) -> AsyncIterator[RequestOutput]:
        """Likewise for one conversation."""
        question = self._chat_question(messages, tools, chat_template_kwargs, add_generation_prompt,
                                       continue_final_message, lora_request)
        return self._answer(question, sampling_params, request_id)

    async def embed(self, prompt: Any, *, lora_request: Any = None, pooling: str | None = None,
                    normalise: bool | None = None) -> EmbeddingRequestOutput:
        question = self._question(prompt, lora_request)
        settings = embedding_settings(pooling, normalise)
        values = await self._values(question, _tenon.EMBEDDING, settings)
        return EmbeddingRequestOutput(self._next_id(), EmbeddingOutput(values), question.ids)

    async def score(self, prompt: Any, *, lora_request: Any = None) -> PromptScore:
        question = self._question(prompt, lora_request)
        return PromptScore(self._next_id(), question.ids, await self._values(question, _tenon.SCORE, []))

    async def abort(self, request_id: str | Iterable[str], internal: bool = False) -> None:
        """Ends a request, or several, soon, with what they have by then. One that has ended, or never was, stays as it is."""
        for one in [request_id] if isinstance(request_id, str) else list(request_id):
            call = self._running.get(one)
            if call is not None:
                call.cancel()

    async def check_health(self) -> None:
        """Errors: `TenonError`, if it was closed."""
        self.current_engine().facts()

    def get_num_unfinished_requests(self) -> int:
        return len(self._running)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.get_tokenizer()

    @property
    def is_running(self) -> bool:
        """Whether requests can be made: until it is closed."""
        try:
            self.current_engine().facts()
        except TenonError:
            return False
        return True

    @property
    def is_stopped(self) -> bool:
        return not self.is_running

    @property
    def errored(self) -> bool:
        return not self.is_running

    def shutdown(self, timeout: float | None = None) -> None:
        """As `close`; it cancels what runs, and takes no time worth a limit."""
        self.close()

    async def _answer(self, question: Question, params: SamplingParams | None, request_id: str | None,
                      priority: int = 0) -> AsyncIterator[RequestOutput]:
        kind = RequestOutputKind.CUMULATIVE if params is None else params.output_kind
        request_id = request_id or self._next_id()
        if getattr(question.lora, "lora_path", ""):
            await asyncio.to_thread(self._has_adapters, [question.lora])
        self._ask_answer(question, params, streams=kind is not RequestOutputKind.FINAL_ONLY, priority=priority)
        so_far: dict[int, CompletionOutput] = {}
        async with self._submitted(question, request_id) as (call, news):
            ended = False
            while not ended:
                await news()
                pieces, ended = call.take()
                if ended:
                    break
                for index, text, ids in pieces:
                    one = so_far.setdefault(index, CompletionOutput(index, "", [], lora_request=question.lora))
                    one.text, one.token_ids = one.text + shown_text(params, text), one.token_ids + ids
                if pieces:
                    yield RequestOutput(request_id, question.text, question.ids, None, list(map(_copy, so_far.values())),
                                        False, lora_request=question.lora)
                if kind is RequestOutputKind.DELTA:
                    so_far = {}
            last = self._output(question, call, request_id)
            if kind is RequestOutputKind.DELTA:
                pieces_by_index = {index: (shown_text(params, text), ids) for index, text, ids in pieces}
                for one in last.outputs:
                    one.text, one.token_ids = pieces_by_index.get(one.index, ("", []))
            yield last

    async def _values(self, question: Question, want: int, settings: list[tuple[str, str]]):
        question.asked.want = want
        question.asked.settings = settings + adapter_setting(question.lora)
        async with self._submitted(question, self._next_id()) as (call, news):
            ended = False
            while not ended:
                await news()
                _, ended = call.take()
            call.check_end()
            return call.values()

    def _submitted(self, question: Question, request_id: str) -> "_Submission":
        loop = asyncio.get_running_loop()
        listener = self._listeners.get(loop)
        if listener is None:
            listener = self._listeners[loop] = _Listener(loop)
        return _Submission(self, question, listener, self._running, request_id)


class _Submission:
    """A call while it is wanted. No generator: at its end, an event loop closes all of those in any order."""

    def __init__(self, owner: OpenModel, question: Question, listener: _Listener, running: dict, request_id: str):
        self._owner, self._question, self._listener = owner, question, listener
        self._running, self._id = running, request_id
        self._number, self._event = listener.add()
        self._call: _tenon.Call | None = None
        self._loop = asyncio.get_running_loop()
        self._earliest = 0.0  # when the next output may be read

    async def __aenter__(self):
        try:
            while self._call is None:
                try:
                    self._call = self._owner.submit(self._question, self._listener.bell, self._number)
                except BusyError:
                    await asyncio.sleep(0.01)
        except BaseException:
            self._listener.remove(self._number)
            raise
        self._running[self._id] = self._call
        return self._call, self._news

    async def __aexit__(self, *_: Any) -> None:
        self._listener.remove(self._number)
        self._running.pop(self._id, None)
        self._call.cancel()

    async def _news(self) -> None:
        await self._event.wait()
        self._event.clear()
        gap = self._earliest - self._loop.time()
        if gap > 0:
            # Until something is taken the engine rings for the end alone.
            try:
                await asyncio.wait_for(self._event.wait(), gap)
            except asyncio.TimeoutError:
                pass
            self._event.clear()
        self._earliest = self._loop.time() + _SHORTEST_GAP_S


absent.refuse_methods(AsyncLLM, absent.METHODS | absent.ENGINES | absent.COROUTINES)


def _copy(one: CompletionOutput) -> CompletionOutput:
    return CompletionOutput(one.index, one.text, list(one.token_ids), lora_request=one.lora_request)
