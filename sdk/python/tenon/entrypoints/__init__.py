"""Where vLLM has its LLM."""

from .. import absent


def __getattr__(name: str):
    absent.refuse_name(name, __name__)
