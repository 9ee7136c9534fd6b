"""Bytes: does what is read lie inside what is written and allocated?"""
