"""The model: is the graph the one that its configuration and its checkpoint describe?

What every layer does alike is consistent, and no look at the two files alone can call it
wrong. The user says what was meant, with `--model-config` and `--weights`; so what these rules
find is an error.
"""
