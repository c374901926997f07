"""`from tenon.engine.arg_utils import EngineArgs`, where vLLM has it, too."""

from . import EngineArgs

__all__ = ["EngineArgs"]
