"""Events: do the counts let the graph run to its end?"""
