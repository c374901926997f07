"""vLLM's engine by its names: settings as an object or from a command line, and a loop of steps of one's own."""

import argparse
import dataclasses
import itertools
import select
from collections.abc import Mapping
from typing import Any

from .. import _tenon, absent
from ..errors import InvalidArgumentError
from ..llm import LLM, Question
from ..open_model import nothing_asked, nothing_else_asked
from ..opening import TABLES, refuse_setting
from ..outputs import CompletionOutput, RequestOutput, shown_text
from ..sampling_params import SamplingParams
from ..tokenizer import Tokenizer
from ..vllm_settings import names_of_vllm


# Every setting, and its value where nobody gives one.
_FIELDS = {"model": None, "pipeline": None, "threads": None, "max_calls": None, "plugin_path": (), "digests": False, **dict.fromkeys(TABLES),
           **{name: default for name, (_, default) in names_of_vllm().items()}}
_SHORT = {"tensor_parallel_size": "-tp", "pipeline_parallel_size": "-pp", "data_parallel_size": "-dp", "quantization": "-q"}


class EngineArgs(dataclasses.make_dataclass("_Fields", [(name, Any, dataclasses.field(default=value))
                                                        for name, value in _FIELDS.items()], init=False, repr=False)):
    """What a model is opened with: the parameters of `LLM`, as a dataclass."""

    def __init__(self, model: str | None = None, **settings: Any):
        self.model = model
        for name, value in settings.items():
            if name not in _FIELDS and "." not in name:
                refuse_setting(name)
            setattr(self, name, value)

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        """Adds an option for each of vLLM's names that `LLM` knows, such as `--max-model-len`."""
        parser.add_argument("--model")
        for name, (kind, default) in names_of_vllm().items():
            flags = ["--" + name.replace("_", "-"), *([_SHORT[name]] if name in _SHORT else [])]
            if kind is bool:
                parser.add_argument(*flags, action=argparse.BooleanOptionalAction, default=default)
            else:
                parser.add_argument(*flags, type=kind, default=default)
        return parser

    @classmethod
    def from_cli_args(cls, args: argparse.Namespace) -> "EngineArgs":
        return cls(**{name: value for name, value in vars(args).items() if name == "model" or name in names_of_vllm()})

    def __repr__(self) -> str:
        shown = [(name, value) for name, value in vars(self).items() if name not in _FIELDS or value != _FIELDS[name]]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown)})"


class AsyncEngineArgs(EngineArgs):
    """The same for `AsyncLLM.from_engine_args`."""


class FlexibleArgumentParser(argparse.ArgumentParser):
    """Takes `--max_model_len` for `--max-model-len`."""

    def parse_args(self, args=None, namespace=None):
        import sys
        words = []
        for word in sys.argv[1:] if args is None else args:
            flag, equals, value = word.partition("=")
            words.append(flag.replace("_", "-") + equals + value if word.startswith("--") else word)
        return super().parse_args(words, namespace)


class _Running:
    """A request that has not ended, and what has come of it."""

    def __init__(self, request_id: str, question: Question, call: _tenon.Call):
        self.id, self.question, self.call = request_id, question, call
        self.so_far: dict[int, CompletionOutput] = {}


class LLMEngine:
    """Requests are added, and `step` waits for the next of their output. One thread uses it."""

    def __init__(self, llm: LLM):
        self._llm = llm
        self._bell = _tenon.Bell()
        self._numbers = itertools.count()
        self._running: dict[int, _Running] = {}

    @classmethod
    def from_engine_args(cls, engine_args: EngineArgs, usage_context: Any = None) -> "LLMEngine":
        return cls(LLM(**vars(engine_args)))

    def add_request(self, request_id: str, prompt: Any, params: SamplingParams, arrival_time: float | None = None,
                    lora_request: Any = None, tokenization_kwargs: Mapping | None = None,
                    trace_headers: Mapping | None = None, priority: int = 0, prompt_text: str | None = None,
                    **asked: Any) -> str:
        """Submits one prompt. Errors: `TenonError`, also where a request of this id has not ended.

        priority: the lowest runs first, where the scheduler looks at it. arrival_time, trace_headers and prompt_text are
        vLLM's and change nothing; what else it takes is refused if it asks for something.
        """
        if any(one.id == request_id for one in self._running.values()):
            raise InvalidArgumentError(f"a request {request_id!r} has not ended – give another id")
        nothing_asked(tokenization_kwargs=tokenization_kwargs)
        nothing_else_asked("add_request", asked)
        question = self._llm.asked(prompt, params, lora_request, priority)
        number = next(self._numbers)
        self._running[number] = _Running(request_id, question,
                                         self._llm.submitted(question, self._bell, number))
        return request_id

    def abort_request(self, request_ids: str | list[str]) -> None:
        """Ends requests soon; their last output says "abort"."""
        wanted = [request_ids] if isinstance(request_ids, str) else list(request_ids)
        for one in self._running.values():
            if one.id in wanted:
                one.call.cancel()

    def has_unfinished_requests(self) -> bool:
        return bool(self._running)

    def get_num_unfinished_requests(self) -> int:
        return len(self._running)

    def get_tokenizer(self) -> Tokenizer:
        return self._llm.get_tokenizer()

    @property
    def tokenizer(self) -> Tokenizer:
        return self.get_tokenizer()

    def step(self) -> list[RequestOutput]:
        """Waits for news, and returns an output, with all of the answers so far, for each request that has some."""
        if not self._running:
            return []
        select.select([self._bell.fileno()], [], [])
        outputs = []
        for number in self._bell.take():
            one = self._running.get(number)
            if one is not None:
                outputs += self._news(number, one)
        return outputs

    def _news(self, number: int, one: _Running) -> list[RequestOutput]:
        pieces, ended = one.call.take()
        if ended:
            del self._running[number]
            return [self._llm.output_of(one.question, one.call, one.id)]
        for index, text, ids in pieces:
            answer = one.so_far.setdefault(index, CompletionOutput(index, "", [], lora_request=one.question.lora))
            answer.text, answer.token_ids = answer.text + shown_text(one.question.params, text), answer.token_ids + ids
        if not pieces:
            return []
        answers = [CompletionOutput(answer.index, answer.text, list(answer.token_ids), lora_request=answer.lora_request)
                   for answer in one.so_far.values()]
        return [RequestOutput(one.id, one.question.text, one.question.ids, None, answers, False,
                              lora_request=one.question.lora)]


absent.refuse_methods(LLMEngine, absent.METHODS | absent.ENGINES)

__all__ = ["AsyncEngineArgs", "EngineArgs", "FlexibleArgumentParser", "LLMEngine"]
