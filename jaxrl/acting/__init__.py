"""Collecting experience: what joins environments and policies."""
