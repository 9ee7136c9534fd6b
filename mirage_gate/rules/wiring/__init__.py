"""Wiring: is every declared tensor wired to a task, and every wired tensor declared?"""
