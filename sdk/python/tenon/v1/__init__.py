"""Where vLLM has its engine."""
