"""The same for asyncio. The engine rings a descriptor that the event loop watches; no thread waits."""

import asyncio
import contextlib
import itertools
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from . import _tenon
from .errors import BusyError
from .llm import OpenModel, Question, _adapter, _embedding_settings
from .outputs import CompletionOutput, EmbeddingOutput, EmbeddingRequestOutput, PromptScore, RequestOutput
from .sampling_params import RequestOutputKind, SamplingParams


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

    async def generate(self, prompt: Any, sampling_params: SamplingParams | None = None, request_id: str | None = None, *,
                       lora_request: Any = None) -> AsyncIterator[RequestOutput]:
        """One prompt. Each output has all of the answers so far, or what `sampling_params.output_kind` says.

        Leaving the loop, or cancelling its task, cancels the request. Outputs before the last have no log
        probabilities.
        """
        async for output in self._answer(self._question(prompt, lora_request), sampling_params, request_id):
            yield output

    async def chat(self, messages: Sequence[Mapping], sampling_params: SamplingParams | None = None,
                   request_id: str | None = None, *, lora_request: Any = None, add_generation_prompt: bool = True,
                   continue_final_message: bool = False, tools: Sequence | None = None,
                   chat_template_kwargs: Mapping | None = None) -> AsyncIterator[RequestOutput]:
        """Likewise for one conversation."""
        question = self._chat_question(messages, tools, chat_template_kwargs, add_generation_prompt,
                                       continue_final_message, lora_request)
        async for output in self._answer(question, sampling_params, request_id):
            yield output

    async def embed(self, prompt: Any, *, lora_request: Any = None, pooling: str | None = None,
                    normalise: bool | None = None) -> EmbeddingRequestOutput:
        question = self._question(prompt, lora_request)
        settings = _embedding_settings(pooling, normalise)
        values = await self._values(question, _tenon.EMBEDDING, settings)
        return EmbeddingRequestOutput(self._next_id(), EmbeddingOutput(values), question.ids)

    async def score(self, prompt: Any, *, lora_request: Any = None) -> PromptScore:
        question = self._question(prompt, lora_request)
        return PromptScore(self._next_id(), question.ids, await self._values(question, _tenon.SCORE, []))

    async def abort(self, request_id: str) -> None:
        """Ends a request soon, with what it has by then. One that has ended, or never was, stays as it is."""
        call = self._running.get(request_id)
        if call is not None:
            call.cancel()

    def shutdown(self) -> None:
        """As `close`."""
        self.close()

    async def _answer(self, question: Question, params: SamplingParams | None,
                      request_id: str | None) -> AsyncIterator[RequestOutput]:
        kind = RequestOutputKind.CUMULATIVE if params is None else params.output_kind
        request_id = request_id or self._next_id()
        self._ask_answer(question, params, streams=kind is not RequestOutputKind.FINAL_ONLY)
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
                    one.text, one.token_ids = one.text + text, one.token_ids + ids
                if pieces:
                    yield RequestOutput(request_id, question.text, question.ids, None, list(map(_copy, so_far.values())),
                                        False, None, question.lora)
                if kind is RequestOutputKind.DELTA:
                    so_far = {}
            last = self._output(question, call, request_id)
            if kind is RequestOutputKind.DELTA:
                pieces_by_index = {index: (text, ids) for index, text, ids in pieces}
                for one in last.outputs:
                    one.text, one.token_ids = pieces_by_index.get(one.index, ("", []))
            yield last

    async def _values(self, question: Question, want: int, settings: list[tuple[str, str]]):
        question.asked.want = want
        question.asked.settings = settings + _adapter(question.lora)
        async with self._submitted(question, self._next_id()) as (call, news):
            ended = False
            while not ended:
                await news()
                _, ended = call.take()
            call.check_end()
            return call.values()

    @contextlib.asynccontextmanager
    async def _submitted(self, question: Question, request_id: str):
        loop = asyncio.get_running_loop()
        listener = self._listeners.get(loop)
        if listener is None:
            listener = self._listeners[loop] = _Listener(loop)
        number, event = listener.add()
        call = None
        try:
            while call is None:
                try:
                    call = _tenon.Call(self._engine, question.asked, listener.bell, number)
                except BusyError:
                    await asyncio.sleep(0.01)
            self._running[request_id] = call

            async def news():
                await event.wait()
                event.clear()

            yield call, news
        finally:
            listener.remove(number)
            self._running.pop(request_id, None)
            if call is not None:
                call.cancel()


def _copy(one: CompletionOutput) -> CompletionOutput:
    return CompletionOutput(one.index, one.text, list(one.token_ids), lora_request=one.lora_request)
