"""The algorithms, one readable file each."""
