"""Kernels: does every task have a body, and every body its slots?"""
