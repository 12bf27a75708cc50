"""The host side of training: loop, checkpoints, evaluation, logs. Knows only the `Algorithm` triple."""
