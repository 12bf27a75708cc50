"""Collecting experience: the code that connects environments and policies."""
