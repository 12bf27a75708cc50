"""Shared by all tests: every key is consumed once, or the test fails."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.config.update("jax_debug_key_reuse", True)
