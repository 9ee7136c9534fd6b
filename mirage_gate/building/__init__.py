"""Watching a builder make its graph, and auditing what it emits, before nvcc starts.

The one part of the gate that stands beside a user's running code. ``check`` loads none of it.
"""
