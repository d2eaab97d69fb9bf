"""Translating many files on a Ray cluster: `weft translate --ray`.

blocks.py     files of lines, JSON lines or Parquet as blocks, and their outputs merged again
job.py        what to translate and where; which blocks are done
ray_pool.py   the pool of actors that hold the model
"""
