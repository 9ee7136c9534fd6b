"""Reading: the files as they are, into plain data. Nothing here judges."""
