"""Detects and reports what can go wrong during training: NaN, slowness, busy machines, stragglers."""
