"""Agreed: is the wiring still what was agreed on, and is what was agreed still needed?"""
