"""Thresholds of the schedules, and of the matrices and derivatives beside them.

Each has its unit, the two cases that it separates, and the measurement behind it. The benchmark that measures it again
is named in brackets: `python -m benchmarks --filter <name>` for names with a slash, and million, lynghus_crba; for the
others `python -m benchmarks.<name>`. benchmarks/NOTES.md has the figures.
"""

# -- lanes or passes over the whole tree -------------------------------------------------------------------------------
GPU_IN_ORDER_MAX_ROWS = 1000  # rows; a GPU walks a few states of fewer as fast in order as by paths [crossover/]
GPU_IN_ORDER_MAX_ROWS_SINGLE = 200  # rows; the same for a single state, with native walks as the other way [crossover/]
MANY_STATES = 64  # states; from here on the reason given is that they fill the lanes [crossover/]
DEEP_MIN_LEVELS = 100  # levels; here matrices leave an error of 3e-15 in float64, quaternions half as much [rotations]

# -- one huge tree -----------------------------------------------------------------------------------------------------
BLOCKS_MIN_ROWS = 20_000  # rows; from here on blocks on all cores beat lanes on a CPU, state by state [million]
BLOCK_PIECE_BYTES = 43 * 8 * 2048  # bytes of all fields of a piece: most of a level-2 cache [million]
JOINT_TASK_LINES = 64  # lines of quaternion joints that a core places at a time: some 2 µs [million]
STAGES_MIN_ROWS_OF_BATCH = 8000  # rows; native walks of smaller trees do not fill a GPU state by state [million]
RESIDENT_MIN_NUMBERS = 1 << 20  # numbers; fewer are constants of the programs that use them [million]
SHARDED_MIN_LANES = 16  # lanes that the spines of a device are cut into, where native code asks for no more [scaling]

# -- programs written out for one robot --------------------------------------------------------------------------------
WRITTEN_OUT_MAX_ROWS = 10  # rows; programs for one robot are 1.5 to 6 times as fast [cpu/, h200/]
WRITTEN_OUT_MAX_ROBOTS = 64  # robots a process; code of one takes 20 to 70 kB, LLVM keeps 1 to 1.5 MB of compiling it
WRITTEN_OUT_MAX_TURNS = 450  # turns of all loops; beyond, compiling takes longer than most batches [cpu/]
WOVEN_MAX_TURNS = 2000  # turns; weaving more takes over 20 ms, and caches hold little of longer programs [h200/]

# -- matrices over pairs of rows ---------------------------------------------------------------------------------------
PAIRS_MAX_ROWS = 64  # rows; for smaller trees, walking the pairs of H is always the fastest [lynghus_crba]
PAIRS_MAX_COUNT = 2**18  # pairs a state; native lanes walk them faster than factors are multiplied [lynghus_crba]
PAIRS_SHARING_STATES = 16  # states that may share a longer walk over pairs [lynghus_crba]
ZERO_FILL_RATIO = 8  # entries of H to an ancestor pair; from here on the zeros are filled first [lynghus_crba]
LARGE_PAGES_MIN_BYTES = 2**25  # bytes of one H; XLA fills it page by page, native pairs use large pages [lynghus_crba]
ZERO_RUN = 8  # zeros of H that a lane writes at a time [lynghus_crba]
FACTORS_MIN_SPARSITY = 2  # times fewer operations; with less to gain a dense Cholesky is faster [ltdl]
FACTORS_DENSE_MIN_DEPTH = 64  # levels; deeper trees are left to a dense Cholesky, whatever their sparsity [ltdl]
FACTORS_MAX_TURNS = 2**24  # turns; the longest table of triples or pairs that a lane program is given [ltdl]
DENSE_LANES_MAX_ROWS = 128  # rows of a matrix that a lane factors: 350 000 turns, 6 MB; it grows as n³ [ltdl]
DENSE_MAX_ROWS = 2**13  # rows; larger trees have no dense matrix [ltdl]
DENSE_BLOCK_ROWS = 64  # rows whose own factor XLA finds row by row; all else is products of matrices [ltdl]
DENSE_PANELS = 4  # loops over blocks, each on the remaining part; a single loop multiplies three times as much [ltdl]
DCA_TILE_JOINTS = 256  # joints that divide and conquer assembles at once; more take memory, not less time [yang_links/]

# -- mimic joints and derivatives --------------------------------------------------------------------------------------
REDUCED_MAX_ROWS = 1000  # rows; up to here the equation of a coupled mechanism has a program: tables of depth² · rows
PRODUCT_MAX_ROWS = 32  # rows of many small matrices whose products are written out on a CPU [derivatives]
GPU_PRODUCT_MAX_ROWS = 20  # the same on a GPU: of 18 rows 2.0 ms a million, by cuBLAS 3.1; of 32 11.5 and 4.5 [h200/]
CLOSED_FORM_MAX_ROWS = 300  # rows; matrices over pairs of rows, for a batch of larger robots, would not fit anywhere
MATRICES_MIN_DIRECTIONS = 4  # directions; from here on matrices in closed form are cheaper than as many runs [cpu/]
SOLVE_MAX_TURNS = 1 << 21  # turns of a solve in a lane, whose tables then take 80 MB; beyond, H⁻¹ is multiplied
SOLVE_CHUNK_COLUMNS = 8  # columns of X that a turn of a solve moves: a wide vector of float64 [cpu/]
SOLVE_TERMS = 4  # rows of X that a turn subtracts from another, which is then loaded and stored once [cpu/]
SWEEP_WIDTHS = (4, 2, 1)  # degrees of freedom whose columns a turn of a sweep moves; a room of 4 is 4.6 kB [cpu/]
SWEEP_MIN_ANCESTORS = 8  # rows that carry a row, on average; with fewer, factors of H are faster than sweeps [robots]
