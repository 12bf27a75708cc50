"""Levels: which starts of episodes are worth playing (unsupervised environment design), and sets of them on disk."""
