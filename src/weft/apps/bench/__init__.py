"""Benchmarks: the growth of time and memory with the sizes of a workload, for ``weft bench scale``.

sizes       the sizes that vary, and those at which the others stay
workloads   a recipe's model at given sizes: an update, the encoder, a search step
memory      the peak memory of a call
sweep       which sizes fit into the time, and the repetitions in alternating order
growth      a + b n^p fitted to measurements, with an interval for p, or why that is not possible
limits      the share of the machine's peak rates that a measurement reaches
scale       the outline: all sweeps of a recipe
cluster     predicted speed of several GPUs, from that of one
records     the result as JSON
report      tables, charts and text of the result
"""
