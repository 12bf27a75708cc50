"""Levels: the starts of episodes, which training can choose and evaluation can share."""
