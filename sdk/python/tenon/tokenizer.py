"""The model's own tokenizer and chat template, under the names that transformers has for them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _tenon, absent, checks, prompts
from .errors import InvalidArgumentError, UnsupportedError


class Encoding(dict):
    """What calling a tokenizer gives: `input_ids` and `attention_mask`, also as attributes."""

    def __getattr__(self, name: str):
        if name in self:
            return self[name]
        raise AttributeError(f"an encoding has no {name!r} – it has {' and '.join(self)}")


class Tokenizer:
    """The model's own tokenizer and chat template. What else transformers' tokenizers have, `AutoTokenizer` reads from the
    same folder."""

    def __init__(self, owner: Any):
        self._owner = owner

    @property
    def _engine(self) -> _tenon.Engine:
        return self._owner.current_engine()

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The tokens of a prompt, with what the model puts around it, or without."""
        if not isinstance(text, str):
            raise InvalidArgumentError(f"a text to encode is {text!r} – it must be one text; the tokenizer itself, called, "
                                       "takes several")
        ids = self._engine.encode(prompts.asked_for(text))
        if add_special_tokens:
            return ids
        # What it puts around nothing, of which some may come first, and some last.
        around = self._engine.encode(prompts.asked_for(""))
        first = next((place for place, (one, other) in enumerate(zip(around, ids)) if one != other),
                     min(len(around), len(ids)))
        last = len(around) - first
        return ids[first:len(ids) - last]

    def __call__(self, text: str | Sequence[str], add_special_tokens: bool = True, **asked: Any) -> Encoding:
        """`input_ids` and `attention_mask` of a text, or lists of them of several. Nothing is padded or cut off."""
        wanted = sorted(name for name, value in asked.items() if value)
        if wanted:
            raise UnsupportedError(f"{', '.join(wanted)} of a tokenizer has no counterpart here – transformers' AutoTokenizer "
                                   "has it")
        if isinstance(text, str):
            ids = self.encode(text, add_special_tokens)
            return Encoding(input_ids=ids, attention_mask=[1] * len(ids))
        several = [self.encode(one, add_special_tokens) for one in checks.listed(text, "text", "texts, or one text")]
        return Encoding(input_ids=several, attention_mask=[[1] * len(ids) for ids in several])

    def decode(self, token_ids: int | Sequence[int], skip_special_tokens: bool = False) -> str:
        """Their text. What is no UTF-8 is shown as U+FFFD."""
        one = not isinstance(token_ids, Iterable) and prompts.is_id(token_ids)
        given = [token_ids] if one else checks.listed(token_ids, "token_ids", "token ids, or one")
        return self._engine.decode(prompts.asked_for(given).tokens, not skip_special_tokens)

    def batch_decode(self, sequences: Iterable[Sequence[int]], skip_special_tokens: bool = False) -> list[str]:
        return [self.decode(ids, skip_special_tokens) for ids in checks.listed(sequences, "sequences", "lists of token ids")]

    def apply_chat_template(self, messages: Sequence[Mapping], tools: Sequence | None = None,
                            add_generation_prompt: bool = False, continue_final_message: bool = False,
                            tokenize: bool = True, **template_data: Any) -> list[int] | str:
        ids = self._engine.encode(prompts.asked_in_chat(messages, tools, template_data, add_generation_prompt,
                                                        continue_final_message))
        return ids if tokenize else self._engine.decode(ids, True)

    @property
    def vocab_size(self) -> int:
        """Ids of tokens are below it."""
        return self._engine.facts()["vocabulary"]

    def __len__(self) -> int:
        return self.vocab_size

    @property
    def bos_token_id(self) -> int | None:
        """That texts begin with; None where the model's files name none."""
        return special_token(self, "bos")

    @property
    def eos_token_id(self) -> int | None:
        """That texts end with; None where the model's files name none."""
        return special_token(self, "eos")

    @property
    def bos_token(self) -> str | None:
        return None if self.bos_token_id is None else self.decode(self.bos_token_id)

    @property
    def eos_token(self) -> str | None:
        return None if self.eos_token_id is None else self.decode(self.eos_token_id)

    def __await__(self):
        """Itself: programs for several versions of vLLM's AsyncLLM await its tokenizer."""
        return self
        yield

    def __getattr__(self, name: str):
        absent.refuse_token_part(name)

    def __repr__(self) -> str:
        return f"Tokenizer(model={self._owner.model!r}, vocab_size={self.vocab_size})"


def ids_in_config(model: str) -> dict[str, int]:
    """`bos_token_id` and `eos_token_id` as a model's folder has them for its text; of several, the first."""
    found: dict[str, Any] = {}
    for file in ("config.json", "generation_config.json"):
        path = Path(model) / file
        if path.is_file():
            known = json.loads(path.read_text())
            for part in (known.get("text_config") or {}, known):
                found.update({name: part[name] for name in ("bos_token_id", "eos_token_id") if part.get(name) is not None})
    return {name: value[0] if isinstance(value, Sequence) else value for name, value in found.items()}


def special_token(tokenizer: Tokenizer, kind: str) -> int | None:
    """The id of the token that `tokenizer_config.json` names as "bos_token" or "eos_token"; without that file, of config.json.

    Errors: UnsupportedError for a GGUF file.
    """
    model = Path(tokenizer._owner.model)
    if not model.is_dir():
        raise UnsupportedError(f"{kind}_token_id is read from a model's folder, and {model} is a file")
    config = model / "tokenizer_config.json"
    named = json.loads(config.read_text()) if config.is_file() else {}
    if f"{kind}_token" not in named:
        return ids_in_config(str(model)).get(f"{kind}_token_id")
    token = named[f"{kind}_token"]
    text = token.get("content") if isinstance(token, Mapping) else token
    ids = tokenizer.encode(text, add_special_tokens=False) if text else []
    return ids[0] if len(ids) == 1 else None
