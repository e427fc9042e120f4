"""Thresholds of layouts, stages and blocks: each with its unit, and the two cases that it separates.

The benchmark in brackets measures it again: `python -m benchmarks --filter <name>`. benchmarks/NOTES.md has the
figures.
"""

# -- layouts of XLA ----------------------------------------------------------------------------------------------------
LONG_PATH_MIN_ROWS = 64  # rows; longer heavy paths are cut into lanes, shorter ones walked level by level [crossover/]
GRID_MIN_WIDTH = 2  # lanes; XLA makes a slice of a gather of one row, and then copies all memory at every visit
GRID_START_ROWS = 256  # rows; the start of a grid costs as much as these rows, within a factor of ten [lynghus]

# -- stages of native walks --------------------------------------------------------------------------------------------
CHUNK_MIN_TURNS = 16  # turns; a shorter chunk costs more to start than to walk [million]
MAX_CELLS_PER_ROW = 1.3  # cells a row; more of them would be padding that lanes walk for nothing [million]
MAX_CHILDREN = 32  # children that a row gathers; in levels with more they add up in memory [million]

# -- blocks on a CPU ---------------------------------------------------------------------------------------------------
MAX_BLOCK_ROWS_PER_PIECE = 4  # pieces; a block on a long path holds at most the rows of 4 pieces [million]
PIECE_MIN_LANES = 4  # lanes; longer paths, of which fewer fit a piece, are cut into chunks [million]
MIN_TOP_BLOCKS = 64  # blocks; long paths have shorter blocks where there would be fewer: cores need work [million]

# -- clusters of several devices ---------------------------------------------------------------------------------------
CLUSTER_GRAIN = 8  # subtrees of up to 1/8 of a device's share stay whole, so shares differ by at most 1/8
