"""Makes `walkers` importable by the tests beside it."""
