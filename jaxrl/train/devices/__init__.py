"""Devices and hosts: the mesh, and agreement between processes."""
