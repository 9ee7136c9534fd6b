"""Hostile inputs for every reader: no traceback, no hang, no lie.

    python -m tests.fuzz --minutes 60               all readers, in turns
    python -m tests.fuzz --minutes 60 --reader cuda  one of them
    python -m tests.fuzz --linear                    time against size, for repeated pieces

`readers` says what each reader may do with any bytes at all, `inputs` makes the bytes, `linear`
measures. What breaks is written to a folder, as the bytes that broke it. pytest runs a short slice
(tests/test_fuzz.py); what a long run found stands there as a case of its own.
"""
