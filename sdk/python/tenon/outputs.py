"""What comes of requests: vLLM's names, with arrays that belong to libtenon and are not copied."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from . import absent

_FINISH = {0: "length", 1: "stop", 2: "stop", 3: None, 4: "abort", 5: "error"}


@dataclass(frozen=True)
class Logprob:
    """Of one token at one position."""

    logprob: float
    rank: int | None = None  # 1 = no token was more likely
    decoded_token: str | None = None


class _Texts(dict):
    """Texts of some tokens, which need no pipeline any more."""

    def __call__(self, token: int) -> str | None:
        return self.get(token)


class Logprobs(Sequence):
    """A dict of token ids to `Logprob` for each position, made when it is looked at.

    The numbers are arrays: `token_ids` and `values` [positions] of the tokens that are there, `ranks` [positions] of
    them, `top_token_ids` and `top_values` [positions, width] of the most likely ones, most likely first. An id of -1
    means that there are no more.

    A copy, and what is pickled, has arrays of its own and goes to other processes.
    """

    def __init__(self, token_ids, found, entries: int, text_of: Callable[[int], str | None]):
        self.token_ids = token_ids
        self.values, self.ranks, top_token_ids, top_values = found
        self.top_token_ids, self.top_values = top_token_ids[:, :entries], top_values[:, :entries]
        self._text_of = text_of

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, position):
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(len(self)))]
        if not -len(self) <= position < len(self):
            raise IndexError(position)
        position %= len(self)
        likely = zip(self.top_token_ids[position].tolist(), self.top_values[position].tolist(), strict=True)
        made = {token: Logprob(value, rank, self._text_of(token))
                for rank, (token, value) in enumerate(likely, 1) if token >= 0}
        here = int(self.token_ids[position])
        chosen = Logprob(float(self.values[position]), int(self.ranks[position]), self._text_of(here))
        # As vLLM has it, the token that is there comes first.
        return {here: chosen, **{token: one for token, one in made.items() if token != here}}

    def __getstate__(self) -> dict:
        ids = {int(token) for array in (self.token_ids, self.top_token_ids) for token in np.unique(array)}
        texts = _Texts({token: self._text_of(token) for token in ids if token >= 0})
        return {**vars(self), "_text_of": texts}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Logprobs) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Logprobs({len(self)} positions of {self.top_values.shape[1]} entries)"


class PromptLogprobs(Logprobs):
    """Likewise, but the first position is None: nothing stands before it."""

    def __len__(self) -> int:
        return len(self.values) + 1

    def __getitem__(self, position):
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(len(self)))]
        if not -len(self) <= position < len(self):
            raise IndexError(position)
        position %= len(self)
        return None if position == 0 else Logprobs(
            self.token_ids, (self.values, self.ranks, self.top_token_ids, self.top_values),
            self.top_values.shape[1], self._text_of)[position - 1]


@dataclass
class CompletionOutput:
    """One answer."""

    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None = None  # where logprobs were asked for
    logprobs: Logprobs | None = None
    routed_experts: object | None = None  # vLLM's, as kv_transfer_params: None here
    finish_reason: str | None = None  # "stop", "length", "abort"; None = it goes on
    stop_reason: int | str | None = None  # the stop text or token that ended it
    lora_request: object | None = None
    kv_transfer_params: object | None = None
    digest: str | None = None  # of the logits, as `tenon run --json` has it, with `LLM(digests=True)`

    def finished(self) -> bool:
        return self.finish_reason is not None


@dataclass
class RequestOutput:
    """The answers to one prompt."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    prompt_logprobs: PromptLogprobs | None
    outputs: list[CompletionOutput]
    finished: bool
    metrics: object | None = None  # vLLM's, as the three that follow lora_request: None here
    lora_request: object | None = None
    encoder_prompt: str | None = None
    encoder_prompt_token_ids: list[int] | None = None
    num_cached_tokens: int | None = None  # of the prompt, whose K and V were there already
    kv_transfer_params: object | None = None

    def _repr_html_(self) -> str:
        import html
        rows = "".join(f"<tr><td>{one.index}</td><td style='text-align:left;white-space:pre-wrap'>{html.escape(one.text)}"
                       f"</td><td>{len(one.token_ids)}</td><td>{one.finish_reason or ''}</td></tr>" for one in self.outputs)
        return (f"<p style='white-space:pre-wrap'><b>{html.escape(self.prompt or '')}</b></p><table><tr><th></th><th>text"
                f"</th><th>tokens</th><th>ended by</th></tr>{rows}</table>")


@dataclass
class Delta:
    """New output of one answer, from `LLM.stream`. A text may lag behind its tokens."""

    index: int
    text: str
    token_ids: list[int] = field(default_factory=list)


@dataclass(eq=False)
class EmbeddingOutput:
    """The prompt as a vector, float32 [hidden_size]."""

    embedding: np.ndarray

    @property
    def hidden_size(self) -> int:
        return len(self.embedding)

    def __repr__(self) -> str:
        return f"EmbeddingOutput(hidden_size={self.hidden_size})"


@dataclass(eq=False)
class EmbeddingRequestOutput:
    request_id: str
    outputs: EmbeddingOutput
    prompt_token_ids: list[int]
    num_cached_tokens: int = 0
    finished: bool = True


@dataclass
class BeamSearchSequence:
    """A beam: `tokens` are the prompt's and the answer's, `text` is that of all of them."""

    tokens: list[int]
    cum_logprob: float
    text: str
    logprobs: Logprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    lora_request: object | None = None


@dataclass
class BeamSearchOutput:
    """The beams of one prompt, best first."""

    sequences: list[BeamSearchSequence]


@dataclass
class ScoringOutput:
    """How alike two texts are: the cosine of their vectors."""

    score: float


@dataclass
class ScoringRequestOutput:
    request_id: str
    outputs: ScoringOutput
    prompt_token_ids: list[int]
    num_cached_tokens: int = 0
    finished: bool = True


@dataclass(eq=False)
class PromptScore:
    """How likely a prompt is: the log probability of each token after the first, float32 [tokens - 1]."""

    request_id: str
    prompt_token_ids: list[int]
    logprobs: np.ndarray

    @property
    def total(self) -> float:
        """The sum of the log probabilities."""
        return float(np.sum(self.logprobs, dtype=np.float64))

    @property
    def perplexity(self) -> float:
        return float(np.exp(-self.total / max(1, len(self.logprobs))))

    def __repr__(self) -> str:
        return f"PromptScore(tokens={len(self.prompt_token_ids)}, total={self.total:.4f})"


def shown_text(params, text: str) -> str:
    """What an output has of a text: nothing without `detokenize`, as in vLLM."""
    return text if params is None or params.detokenize else ""


def completion_of(call, index: int, answer: dict, params, text_of) -> CompletionOutput:
    """`answer`, one of a call that has ended, which was asked for with `params` (SamplingParams or None)."""
    entries = None if params is None else params.logprobs
    stop_token_ids = () if params is None else params.stop_token_ids
    tokens = answer["tokens"]
    logprobs = None if entries is None else Logprobs(tokens, call.alternatives(index), entries, text_of)
    reason = answer["stop"]
    ids = tokens.tolist()
    if reason is None and answer["finish"] == 1 and ids and ids[-1] in stop_token_ids:
        reason = ids[-1]
    return CompletionOutput(
        index=index, text=shown_text(params, answer["text"]), token_ids=ids, logprobs=logprobs, finish_reason=_FINISH[answer["finish"]],
        cumulative_logprob=None if logprobs is None else float(np.sum(logprobs.values, dtype=np.float64)),
        stop_reason=reason, digest=f"{answer['digest']:016x}" if answer["digest"] else None)


def __getattr__(name: str):
    absent.refuse_name(name, __name__)
