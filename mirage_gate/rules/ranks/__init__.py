"""Ranks: do all ranks agree?

These rules look at summaries, so it is all one whether the ranks were audited in one run or
on different hosts. Where ranks differ, the one that most of them agree with is taken for
right, and of two the lower.
"""
