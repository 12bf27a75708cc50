"""Trained policies in other programs: as a function, in a loop, in a file."""
