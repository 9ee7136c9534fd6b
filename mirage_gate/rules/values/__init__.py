"""Values: does every result reach its reader, and every reader the newest result?"""
