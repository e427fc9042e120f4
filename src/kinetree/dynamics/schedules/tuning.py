"""Thresholds of the schedules. Each has its unit, what it separates, and the measurement behind it.

The figures are in benchmarks/NOTES.md under the heading named; `python -m benchmarks --filter <name>` measures again.
"""

GPU_IN_ORDER_MAX_ROWS = 1000  # rows; a GPU walks a few states of fewer as fast in order as by paths (h200/)
GPU_IN_ORDER_MAX_ROWS_SINGLE = 200  # rows; the same for a single state, where native walks are the other way (h200/)
BLOCKS_MIN_ROWS = 20_000  # rows; from here on blocks on all cores beat lanes on a CPU, state by state (million)
STAGES_MIN_ROWS_OF_BATCH = 8000  # rows; native walks of smaller trees do not fill a GPU state by state (million)
WRITTEN_OUT_MAX_ROWS = 10  # rows; programs for one robot are 1.5 to 6 times as fast (cpu/, h200/)
WRITTEN_OUT_MAX_ROBOTS = 64  # robots a process; code of one takes 20 to 70 kB, LLVM keeps 1 to 1.5 MB of compiling it
WRITTEN_OUT_MAX_TURNS = 450  # turns of all loops; beyond, compiling takes longer than most batches
WOVEN_MAX_TURNS = 2000  # turns; weaving more takes over 20 ms, and caches hold little of longer programs anyway
MANY_STATES = 64  # states; from here on the reason given is that they fill the lanes
PAIRS_MAX_ROWS = 64  # rows; up to so many, walking the pairs of H is the fastest everywhere
PAIRS_MAX_COUNT = 2**18  # pairs a state; native lanes walk them faster than factors are multiplied (lynghus_crba)
PAIRS_SHARING_STATES = 16  # states that may share a longer walk over pairs
ZERO_FILL_RATIO = 8  # entries of H to an ancestor pair; from here on the zeros are filled first
LARGE_PAGES_MIN_BYTES = 2**25  # bytes of one H; XLA would fill it page by page, native pairs ask for large pages
ZERO_RUN = 8  # zeros of H that a lane writes at a time
FACTORS_MIN_SPARSITY = 2  # times fewer operations that must be left for a tree's sparsity to beat a dense Cholesky
FACTORS_DENSE_MIN_DEPTH = 64  # levels; deeper trees are left to a dense Cholesky, whatever their sparsity
FACTORS_MAX_TURNS = 2**24  # turns; the longest table of triples or pairs that a lane program is given
DENSE_LANES_MAX_ROWS = 128  # rows of a matrix that a lane factors: 350 000 turns, a table of 6 MB that grows as n³
DENSE_MAX_ROWS = 2**13  # rows; larger trees have no dense matrix
REDUCED_MAX_ROWS = 1000  # rows; up to here the equation of a coupled mechanism has a program: tables of depth² · rows
CLOSED_FORM_MAX_ROWS = 300  # rows; matrices over pairs of rows, for a batch of larger robots, would not fit anywhere
MATRICES_MIN_DIRECTIONS = 4  # directions; from here on matrices in closed form are cheaper than as many runs
DEEP_MIN_LEVELS = 100  # levels; here matrices leave an error of 3e-15 in float64, and quaternions half as much
SOLVE_MAX_TURNS = 1 << 21  # turns of a solve in a lane, whose tables then take 80 MB; beyond, H⁻¹ is multiplied
