"""What the lessons stand on: checks, measures, timing, training and figures.

It imports normlib and is never imported by it.
"""
