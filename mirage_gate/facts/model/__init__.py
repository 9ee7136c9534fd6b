"""What the graph shows of the model it was built from, to hold against what is meant."""
