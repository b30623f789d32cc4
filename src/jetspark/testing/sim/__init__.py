"""The whole broker in a simulator: one thread, one source of chance, a disk that loses writes, time that jumps.

A seed decides everything. `world` plays the edge and the faults, `workload` the clients, `model` and `consumer_model`
say what the streams and consumers should hold, `witness` compares them with what the broker does, byte by byte.
`python -m jetspark.testing.sim --seed 17` runs one seed, `--seconds 60` as many as fit.
"""
