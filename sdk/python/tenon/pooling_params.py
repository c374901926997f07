"""How vectors are made, under vLLM's names. `LLM.embed` has names of its own for the same."""

from typing import Any

from .errors import InvalidArgumentError, UnsupportedError


class PoolingParams:
    """use_activation: whether a vector is divided by its length; None = as the model's files want it.

    What else vLLM has here is refused if it asks for something.
    """

    def __init__(self, use_activation: bool | None = None, dimensions: int | None = None, **asked: Any):
        if dimensions is not None:
            raise UnsupportedError(f"dimensions is {dimensions!r} – a vector has all that the model gives – take the first of them, "
                                   "embedding[:32], and divide by their length")
        if use_activation not in (None, True, False):
            raise InvalidArgumentError(f"use_activation is {use_activation!r} – it must be true or false")
        if asked.get("task") in (None, "embed"):
            asked.pop("task", None)
        wanted = next((name for name, value in asked.items() if value), None)
        if wanted is not None:
            raise UnsupportedError(f"{wanted} is {asked[wanted]!r} – Tenon has no counterpart for it (docs/python.md) – leave it out")
        self.use_activation = use_activation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PoolingParams) and self.use_activation == other.use_activation

    def __repr__(self) -> str:
        return f"PoolingParams(use_activation={self.use_activation!r})"


def normalised(params: Any, otherwise: bool | None) -> bool | None:
    """Whether `params`, which may be None, want a vector divided by its length."""
    if params is None:
        return otherwise
    if not isinstance(params, PoolingParams):
        raise InvalidArgumentError(f"pooling_params is {params!r} – give PoolingParams")
    if otherwise is not None and params.use_activation not in (None, otherwise):
        raise InvalidArgumentError("normalise and use_activation of pooling_params differ – give one of them")
    return otherwise if params.use_activation is None else params.use_activation
