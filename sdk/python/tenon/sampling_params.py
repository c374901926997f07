"""How answers are made: vLLM's names and defaults where they mean the same, and Tenon's own for the rest."""

import copy
import enum
import json as json_format
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from . import absent, checks
from .errors import InvalidArgumentError, UnsupportedError


class RequestOutputKind(enum.Enum):
    """What each output of `AsyncLLM.generate` has in it."""

    CUMULATIVE = 0  # all of the answer so far
    DELTA = 1  # what is new
    FINAL_ONLY = 2  # one output, at the end


@dataclass
class StructuredOutputsParams:
    """What an answer must look like; exactly one of these (docs/structured-output.md)."""

    json: str | dict | None = None  # a JSON schema
    regex: str | None = None
    choice: list[str] | None = None  # one of these texts
    grammar: str | None = None  # GBNF
    json_object: bool | None = None  # any JSON object
    # Names of vLLM's, for what is so here.
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    disable_fallback: bool = False
    whitespace_pattern: str | None = None
    structural_tag: str | None = None

    def __post_init__(self):
        for name in ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern", "structural_tag"):
            if getattr(self, name):
                raise UnsupportedError(f"{name} is {getattr(self, name)!r} – Tenon has no counterpart for it – write what "
                                       "you want as a grammar")
        given = [name for name in ("json", "regex", "choice", "grammar") if getattr(self, name) is not None]
        given += ["json_object"] if self.json_object else []
        if len(given) != 1:
            raise InvalidArgumentError(
                f"structured outputs have {' and '.join(given) or 'no form'} – give one of json, regex, choice, grammar "
                "and json_object")
        for name in ("regex", "grammar"):
            if getattr(self, name) is not None:
                checks.text(getattr(self, name), name)
        if self.choice is not None and (isinstance(self.choice, str) or not self.choice
                                        or not all(isinstance(text, str) for text in self.choice)):
            raise InvalidArgumentError(f"choice is {self.choice!r} – it must be a list of texts, one at least")

    def setting(self) -> tuple[str, str]:
        """The one that libtenon is given."""
        if self.json is not None:
            return "json_schema", self.json if isinstance(self.json, str) else _json(self.json)
        if self.regex is not None:
            return "regex", self.regex
        if self.choice is not None:
            return "grammar", "root ::= " + " | ".join(_literal(text) for text in self.choice)
        return ("grammar", self.grammar) if self.grammar is not None else ("json_object", "true")


def _literal(text: str) -> str:
    """As GBNF writes it, which has fewer escapes than JSON."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(one if one >= " " else f"\\x{ord(one):02x}" for one in escaped) + '"'


@dataclass
class BeamSearchParams:
    """How `LLM.beam_search` searches."""

    beam_width: int
    max_tokens: int
    ignore_eos: bool = False
    temperature: float = 0.0  # 0 and 1: log probabilities as the model has them
    length_penalty: float = 1.0
    include_stop_str_in_output: bool = False
    structured_outputs: StructuredOutputsParams | None = None
    skip_special_tokens: bool = True  # in the text of a beam, which has the prompt in it
    watermarking: bool | None = None  # beams are not marked
    allowed_token_ids: list[int] | None = None

    def __post_init__(self):
        if isinstance(self.beam_width, bool) or not isinstance(self.beam_width, Integral) or self.beam_width < 1:
            raise InvalidArgumentError(f"beam_width is {self.beam_width!r} – it must be a whole number from 1 on")
        if self.watermarking:
            raise UnsupportedError(f"watermarking is {self.watermarking!r} – beams are not marked – leave it out")


# Numbers that are sent whatever they are, so that a model's own advice does not change what is written here.
_SENT = ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
# Names of vLLM that Tenon has no counterpart for, and the values with which they ask for nothing.
_WITHOUT_COUNTERPART = {
    "skip_special_tokens": True, "spaces_between_special_tokens": True, "flat_logprobs": False,
    "logprob_token_ids": None, "prompt_logprob_token_ids": None, "prompt_logprob_start": None, "stream_interval": None,
    "skip_reading_prefix_cache": None, "thinking_token_budget": None, "repetition_detection": None,
    "routed_experts_prompt_start": 0, "trace_decode_token_ids": None, "skip_clone": False,
    "return_last_hidden_states": False,
    "watermarking": None,
}


class SamplingParams:
    """How one prompt is answered.

    The named parameters are vLLM's, with its defaults. Every other parameter of docs/formats/generation.md can be given
    under its name, such as `typical_p=0.9`, `beams=4` or `dry_multiplier=0.8`; one that does not exist is refused by
    the request that has it.

    Differences: `seed=None` is the seed 0, so the same request has the same answer each time. `max_tokens=None` is what
    fits into the context.
    """

    def __init__(self, n: int = 1, presence_penalty: float = 0.0, frequency_penalty: float = 0.0,
                 repetition_penalty: float = 1.0, temperature: float = 1.0, top_p: float = 1.0, top_k: int = 0,
                 min_p: float = 0.0, seed: int | None = None, stop: str | list[str] | None = None,
                 stop_token_ids: list[int] | None = None, ignore_eos: bool = False, max_tokens: int | None = 16,
                 min_tokens: int = 0, logprobs: int | None = None, prompt_logprobs: int | None = None,
                 include_stop_str_in_output: bool = False,
                 output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE,
                 structured_outputs: StructuredOutputsParams | None = None,
                 logit_bias: dict[int, float] | None = None, allowed_token_ids: list[int] | None = None,
                 extra_args: dict[str, Any] | None = None, bad_words: list[str] | None = None, detokenize: bool = True,
                 **parameters: Any):
        self.n = n
        self.presence_penalty = presence_penalty
        self.frequency_penalty = frequency_penalty
        self.repetition_penalty = repetition_penalty
        self.temperature = temperature
        self.top_p = top_p
        self.top_k = top_k
        self.min_p = min_p
        self.seed = None if seed == -1 else seed  # as in vLLM
        self.stop = [stop] if isinstance(stop, str) else checks.texts(_or_nothing(stop), "stop")
        self.stop_token_ids = checks.listed(_or_nothing(stop_token_ids), "stop_token_ids", "token ids")
        self.ignore_eos = ignore_eos
        self.max_tokens = max_tokens
        self.min_tokens = min_tokens
        self.logprobs = 1 if logprobs is True else logprobs
        self.prompt_logprobs = 1 if prompt_logprobs is True else prompt_logprobs
        self.include_stop_str_in_output = include_stop_str_in_output
        self.output_kind = output_kind
        self.structured_outputs = structured_outputs
        self.logit_bias = logit_bias
        self.allowed_token_ids = (None if allowed_token_ids is None
                                  else checks.listed(allowed_token_ids, "allowed_token_ids", "token ids"))
        self.extra_args = extra_args
        self.bad_words = checks.texts(_or_nothing(bad_words), "bad_words")
        self.detokenize = detokenize
        if not isinstance(output_kind, RequestOutputKind):
            raise InvalidArgumentError(f"output_kind is {output_kind!r} – give RequestOutputKind.DELTA or another of its values")
        if self.stop and not detokenize:
            raise InvalidArgumentError(f"stop is {self.stop!r}, but detokenize is {detokenize!r} – stops are looked for in the "
                                       "text – leave one of them out")
        if parameters.get("watermarking") is False:
            parameters.setdefault("watermark_delta", 0.0)
            del parameters["watermarking"]
        self.parameters = {name: value for name, value in parameters.items() if not _asks_nothing(name, value)}

    @classmethod
    def from_optional(cls, **given: Any) -> "SamplingParams":
        """What is None is the default, but `max_tokens`, whose None is what fits into the context."""
        return cls(**{name: value for name, value in given.items() if value is not None or name == "max_tokens"})

    def clone(self) -> "SamplingParams":
        return copy.deepcopy(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SamplingParams) and vars(self) == vars(other)

    def __repr__(self) -> str:
        default = vars(SamplingParams())
        shown = {name: value for name, value in vars(self).items() if name != "parameters" and value != default[name]}
        shown.update(self.parameters)
        return f"SamplingParams({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def _check(self) -> None:
        """What the library would say under another name."""
        for name, value in (("n", self.n), ("seed", self.seed)):
            if value is not None:
                checks.count(value, name, int(name == "n"))
        for name, value in (("logprobs", self.logprobs), ("prompt_logprobs", self.prompt_logprobs)):
            if value is not None and value != -1:
                checks.count(value, name, 0)
        for name, value in (("logit_bias", self.logit_bias), ("extra_args", self.extra_args)):
            checks.table(value, name)

    def settings(self, most_tokens: int) -> list[tuple[str, str]]:
        """Names and values as libtenon has them; `most_tokens` is what fits after the prompt."""
        self._check()
        made = [(name, _written(getattr(self, name))) for name in _SENT]
        made.append(("top_k", _written(0 if self.top_k == -1 else self.top_k)))
        made.append(("max_tokens", _written(max(1, most_tokens) if self.max_tokens is None else self.max_tokens)))
        if self.n != 1:
            made.append(("samples", _written(self.n)))
        if self.seed is not None:
            made.append(("seed", _written(self.seed)))
        for name, values in (("stop", self.stop), ("stop_tokens", self.stop_token_ids), ("bad_words", self.bad_words),
                             ("logit_bias", [f"{token}={bias}" for token, bias in (self.logit_bias or {}).items()]),
                             ("params", [f"{key}={value}" for key, value in (self.extra_args or {}).items()])):
            if values:
                made.append((name, _json(values)))
        if self.allowed_token_ids is not None:
            made.append(("allowed_tokens", _json(self.allowed_token_ids)))
        if self.min_tokens:
            made.append(("min_tokens", _written(self.min_tokens)))
        if self.ignore_eos:
            made.append(("ignore_eos", "true"))
        if self.include_stop_str_in_output:
            made.append(("include_stop", "true"))
        # 0 asks for the log probability of what was chosen alone, for which libtenon's least is 1.
        asked = [entries for entries in (self.logprobs, self.prompt_logprobs) if entries is not None]
        if asked:
            if min(asked) < 0:
                raise UnsupportedError("logprobs of the whole vocabulary (-1) are not kept – ask for so many of the most "
                                       "likely")
            made.append(("logprobs", _written(max(1, *asked))))
        if self.prompt_logprobs is not None:
            made.append(("prompt_logprobs", "true"))
        if self.structured_outputs is not None:
            if not isinstance(self.structured_outputs, StructuredOutputsParams):
                raise InvalidArgumentError(f"structured_outputs is {self.structured_outputs!r} – give "
                                           "StructuredOutputsParams")
            made.append(self.structured_outputs.setting())
        return made + [(name, _written(value)) for name, value in self.parameters.items()]


def _or_nothing(given: Any) -> Any:
    return [] if given is None else given


def _asks_nothing(name: str, value: Any) -> bool:
    if name not in _WITHOUT_COUNTERPART:
        return False
    if value != _WITHOUT_COUNTERPART[name]:
        raise UnsupportedError(f"{name} is {value!r} – Tenon has no counterpart for it (docs/python.md) – leave it out")
    return True


def _json(value: Any) -> str:
    """What it has of numpy's becomes Python's."""
    def plain(one: Any) -> Any:
        if isinstance(one, Integral):
            return int(one)
        if isinstance(one, Real):
            return float(one)
        if isinstance(one, Iterable) and not isinstance(one, bytes):
            return list(one)
        raise InvalidArgumentError(f"{one!r} is of type {type(one).__name__} – give texts, numbers, true or false, or lists of "
                                   "these")

    return json_format.dumps(value, default=plain)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, dict)):
        return _json(value)
    return str(value)


def __getattr__(name: str):
    absent.refuse_name(name, __name__)
