"""Low-rank adapters."""
