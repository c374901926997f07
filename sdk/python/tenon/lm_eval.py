"""lm-evaluation-harness with Tenon: `python -m tenon.lm_eval --model tenon --model_args pretrained=MODEL --tasks …`.

It is the harness's own program (`pip install lm_eval`) with one model class more. In a program of one's own, `import
tenon.lm_eval` registers the class, which `lm_eval.simple_evaluate(model="tenon", …)` then finds.
"""

from typing import Any

import lm_eval.models  # noqa: F401  all the others
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from . import LLM, SamplingParams, Tokenizer
from .errors import InvalidArgumentError, UnsupportedError

# Prompts that are handed over at once: their results are kept until all of these are there.
_TOGETHER = 256


@register_model("tenon")
class TenonLM(TemplateLM):
    """A model for the harness. Its settings are those of `LLM`; `max_length`, `max_gen_toks`, `add_bos_token` and
    `prefix_token_id` are those of the harness's model `hf`."""

    backend = "causal"

    def __init__(self, pretrained: str | None = None, max_length: int | None = None, max_gen_toks: int = 256,
                 add_bos_token: bool | None = None, prefix_token_id: int | None = None, batch_size: Any = None,
                 max_batch_size: Any = None, device: Any = None, **settings: Any):
        super().__init__()
        self._llm = LLM(pretrained, **settings)
        self._tokenizer = self._llm.get_tokenizer()
        self._add_bos = add_bos_token
        # The tokenizer's, as the harness has it: those of config.json may be others.
        self._bos, eos = _special_tokens(self._tokenizer)
        self._eot = eos if eos is not None else self._bos
        self._prefix = prefix_token_id if prefix_token_id is not None else self._bos if self._bos is not None else eos
        # As the harness counts, a text has one token more; and one of the context is for what is generated after it.
        longest = self._llm.max_model_len - 2
        if max_length is not None and not 1 <= max_length <= longest:
            raise InvalidArgumentError(f"max_length is {max_length} – it must be from 1 to {longest}, two less than the "
                                       "context")
        self.max_length = longest if max_length is None else max_length
        self.max_gen_toks = max_gen_toks

    @property
    def eot_token_id(self) -> int:
        return self._known(self._eot)

    @property
    def prefix_token_id(self) -> int:
        return self._known(self._prefix)

    @property
    def tokenizer_name(self) -> str:
        return self._llm.model.replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        if isinstance(chat_template, str):
            raise UnsupportedError("a chat template has a name – the model's own template is used here – give no name")
        return "the model's own" if chat_template else None

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return self._tokenizer.apply_chat_template(chat_history, tokenize=False, add_generation_prompt=add_generation_prompt,
                                                   continue_final_message=not add_generation_prompt)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        ids = self._tokenizer.encode(string) if string else []
        wanted = self._add_bos if add_special_tokens is None else add_special_tokens
        return ids[1:] if wanted is False and self._bos is not None and ids[:1] == [self._bos] else ids

    def loglikelihood_rolling(self, requests, disable_tqdm: bool = False) -> list[float]:
        pieces, owners = [], []
        for number, request in enumerate(requests):
            windows = get_rolling_token_windows(self.tok_encode(request.args[0]), self.prefix_token_id, self.max_length, 1)
            for context, continuation in map(make_disjoint_window, windows):
                pieces.append((None, list(context), list(continuation)))
                owners.append(number)
        sums = [0.0] * len(requests)
        for number, (value, _) in zip(owners, self._loglikelihood_tokens(pieces), strict=True):
            sums[number] += value
        return sums

    def _loglikelihood_tokens(self, requests, disable_tqdm: bool = False, **_: Any) -> list[tuple[float, bool]]:
        params = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0)
        found = []
        for begin in range(0, len(requests), _TOGETHER):
            part = requests[begin:begin + _TOGETHER]
            prompts = [(context + continuation)[-self.max_length - 1:] for _, context, continuation in part]
            for request, output in zip(part, self._llm.generate(prompts, params, use_tqdm=False), strict=True):
                count = min(len(request[2]), len(output.prompt_token_ids) - 1)
                scored = output.prompt_logprobs
                value = float(scored.values[-count:].sum(dtype="float64")) if count else 0.0
                answer = (value, bool((scored.ranks[-count:] == 1).all()) if count else True)
                found.append(answer)
                if request[0] is not None:
                    self.cache_hook.add_partial("loglikelihood", request[0], answer)
        return found

    def generate_until(self, requests, disable_tqdm: bool = False) -> list[str]:
        found = []
        for begin in range(0, len(requests), _TOGETHER):
            part = requests[begin:begin + _TOGETHER]
            params = [self._params(dict(request.args[1])) for request in part]
            prompts = [self.tok_encode(request.args[0])[-max(1, self.max_length - one.max_tokens):]
                       for request, one in zip(part, params, strict=True)]
            for request, output in zip(part, self._llm.generate(prompts, params, use_tqdm=False), strict=True):
                found.append(output.outputs[0].text)
                self.cache_hook.add_partial("generate_until", request.args, found[-1])
        return found

    def _params(self, asked: dict[str, Any]) -> SamplingParams:
        until = asked.pop("until", None) or []
        most = asked.pop("max_gen_toks", None) or asked.pop("max_new_tokens", None) or self.max_gen_toks
        if not asked.pop("do_sample", asked.get("temperature", 0) > 0):
            asked["temperature"] = 0
        stops = [text for text in ([until] if isinstance(until, str) else until) if text]
        return SamplingParams(stop=stops, max_tokens=most, **asked)

    def _known(self, token: int | None) -> int:
        if token is None:
            raise UnsupportedError("the model's files name no token that texts begin or end with – give prefix_token_id=ID")
        return token


def _special_tokens(tokenizer: Tokenizer) -> tuple[int | None, int | None]:
    """Those that a text begins and ends with; a GGUF file names none here."""
    try:
        return tokenizer.bos_token_id, tokenizer.eos_token_id
    except UnsupportedError:
        return None, None


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
