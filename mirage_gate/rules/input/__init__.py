"""Input: could the files be taken in at all?

The readers report these themselves.
"""
