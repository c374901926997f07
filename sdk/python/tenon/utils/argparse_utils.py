"""`from tenon.utils.argparse_utils import FlexibleArgumentParser`, where vLLM has it, too."""

from ..engine import FlexibleArgumentParser

__all__ = ["FlexibleArgumentParser"]
