"""What programs of vLLM's import from `utils`."""

from ..engine import FlexibleArgumentParser

__all__ = ["FlexibleArgumentParser"]
