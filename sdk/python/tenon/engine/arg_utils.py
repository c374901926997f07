"""`from tenon.engine.arg_utils import EngineArgs`, where vLLM has it, too."""

from . import AsyncEngineArgs, EngineArgs

__all__ = ["AsyncEngineArgs", "EngineArgs"]
