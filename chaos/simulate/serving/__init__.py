"""Serving of language models: prefill and decode on instances over several hosts, while NICs fail.

Modelled, never measured. docs/internals/simulation-serving.md says what is assumed."""
