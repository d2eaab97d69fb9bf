"""Fast paths. Each file names the plain function it must equal; without this package weft is slower and just as
correct.
"""
