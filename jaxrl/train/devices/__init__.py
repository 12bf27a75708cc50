"""Devices and hosts: the mesh, and processes that agree with each other."""
