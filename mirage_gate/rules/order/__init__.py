"""Order: does every read come after its write?"""
