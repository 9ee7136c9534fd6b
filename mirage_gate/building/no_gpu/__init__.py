"""Emitting a graph without a GPU: MPK's own generator, built here, among stand-ins.

:mod:`.generator` builds it from the user's checkout, :mod:`.session` starts a process for each
rank, and :mod:`.child` is what runs in one, with :mod:`.torch` and others standing in.
"""
