"""Everything that is to be known of a CUDA device, in one command that takes less than ten minutes.

    python -m benchmarks.gpu [--only SECTION ...] [--minutes 9] [--tiles]
    TRITON_INTERPRET=1 python -m benchmarks.gpu --dry

After each section its results are in ``<device>.json``, with a page ``<device>.md`` that says measured ÷ ceiling: it
can be stopped at any time, and started again at the same commit it goes on with the sections that are missing. Ceilings
are a float64 matrix product and a copy on the same device. ``--tiles`` writes the block sizes found best into the one
table that the kernels have, ``mfbo_torch/ops/posterior/tiles.json``. ``--dry`` does all of it at sizes of no
account, on the processor, with the kernels interpreted: to see that it runs.
"""
