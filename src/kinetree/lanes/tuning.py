"""Thresholds of the lane machine. Each has its unit, its meaning, and the benchmark that measures it again.

`python -m benchmarks --filter <name>` runs the benchmark named in brackets; benchmarks/NOTES.md has the figures behind
a number. Change one here, run the benchmark, and write down what you saw.
"""

# -- a CPU: who takes part ---------------------------------------------------------------------------------------------
SHARED_MIN_TURNS = 10_000  # turns over all lanes; calls with fewer (60 µs) are not worth a second thread [robots]
PART_MIN_TURNS = 2000  # the fewest turns that a thread takes at a time: some 12 µs [robots]
PARTS_OF_THREAD = 32  # parts for each thread of a very large batch: longer parts use memory better [cpu/]
TASK_MIN_LANES = 256  # the fewest lanes of a task of XLA's thread pool [cpu/]
REPEAT_TASK_MIN_LANES = 32  # the same for programs with repeats, whose lanes take microseconds [rollouts]
CPU_WRITTEN_OUT_STEP_ROWS = 16  # rows; steps of larger robots take longer than a second to compile [rollouts]
LANE_TURN = 50  # numbers of a result that a single lane writes in the time of a turn [robots]
BLOCK_TURN = 68  # the same, for a turn of a block of lanes [robots]
BLOCK_NUMBER = 7  # the same, for a number of the results of a block of eight lanes [robots]
UNLOCKED_MIN_TURNS = 5000  # turns; direct calls with more (50 µs) release Python's lock [cpu/]
HELPER_AWAKE_NS = 500_000  # nanoseconds that a helper stays awake; waking one takes as long as a small batch [cpu/]
HELPER_LOOKS = 64  # tests of a flag before a waiting thread yields its core [cpu/]
ORDERED_LANES = 1024  # lanes sorted at a time, a power of two; each takes 8 bytes on the stack [heaps]
ORDERED_PART_LANES = 128  # lanes that a thread sorts and runs at a time, if it has so many [heaps]
LANE_HINTS = 1 << 16  # lanes whose last turns are remembered, a power of two; 8 bytes each [heaps]
BLOCK_LOOKS = 2000  # tests of the flag of another block before a waiting thread yields its core [million]

# -- a CPU: memory -----------------------------------------------------------------------------------------------------
STACK_BYTES = 1 << 15  # bytes of slots that a direct call keeps on the stack [cpu/]
KEPT_SCRATCH_MAX_BYTES = 1 << 24  # bytes of scratch memory that a call leaves to the next; more is given back [heaps]
LARGE_PAGES_MIN_BYTES = 1 << 22  # bytes from which memory is advised to come in large pages of 2 MB [lynghus_crba]
RECYCLED_ALIGNMENT = 64  # bytes; whole cache lines, so that results can go past the caches [robots]
RECYCLED_MIN_BYTES = 1 << 17  # bytes of a result whose memory is used again: malloc maps new pages for each [robots]
RECYCLED_MAX_BYTES = 1 << 31  # bytes of unused memory that are kept for later results [derivatives, robots]
KEPT_RESULT_MAX_BYTES = 1 << 16  # bytes of one state's result that is used again; larger ones are made anew [cpu/]
STREAM_MIN_BYTES = 1 << 23  # bytes written between two uses of a result's memory; more go past the caches [robots]
CHECKED_VECTORS = 4  # vectors of results tested together for NaN and infinity [cpu/]
PREFETCH_BLOCKS = 2  # blocks of lanes; without it a batch larger than the cache runs at a third of the speed [cpu/]
PREFETCH_TURNS = 4  # turns of a walk between the prefetch of a field and its use [million]
PREFETCH_VECTORS = 6  # vectors of a block between the prefetch of a vector and its use [million]
MASKED_LOAD_MIN_BYTES = 32  # bytes of a vector; shorter ones (SSE, NEON) have no masks for parts of rows [robots]
MASKED_STORE_MIN_BYTES = 64  # bytes of a vector; of AVX2's masked stores some take nine cycles on AMD [robots]
KEPT_SLOTS = 12  # slots that a turn keeps in registers, where there are 32 of them (AVX-512) [robots]
KEPT_MIN_USES = 8  # uses of such a slot in a turn; others are loaded again [robots]

# -- a CPU: compiling --------------------------------------------------------------------------------------------------
TOGETHER_MAX_LOOPS = 8  # loops; programs with more are compiled in pieces, by all threads [rollouts]
APART_MIN_EQUATIONS = 60  # of a step's jaxpr; shorter loops cost less in place than a call and a file [rollouts]
ONE_MODULE_MAX_LINES = 4000  # lines of LLVM text; longer texts are three modules: vectors, lanes, callers [first_]

# -- a CPU: one huge tree ----------------------------------------------------------------------------------------------
WALKS_MIN_ROWS = 1000  # rows from which native walks are faster than XLA's loops [million]
CHUNKS_OF_THREAD = 32  # chunks of long paths for each thread, so that all end at about the same time [million]
WALK_TASKS = 64  # tasks that the lanes of one walk are divided into: enough for a large machine [million]
PREFIX_GROUP = 4  # lanes combined in one walk over walks; more wait longer than the saved walks take [million]
PAIRS_ROWS = 4  # rows of a dense matrix written in one turn [lynghus_crba]
PAIRS_STRIP_ROWS = 32  # the fewest rows of a task [lynghus_crba]
PAIRS_MIN_ENTRIES = 1 << 15  # the fewest entries of a task; fewer are not worth a thread [lynghus_crba]

# -- a GPU -------------------------------------------------------------------------------------------------------------
GPU_BLOCK_THREADS = 128  # threads of a block, if its shared memory fits [h200/]
GPU_REPEAT_THREADS = 32  # threads of a block of a program with repeats: few lanes fill all multiprocessors [ground]
GPU_SEQUENCE_THREADS = 32  # threads of a block of a program with repeats that is written out [ground]
GPU_CROWD_THREADS = 1 << 16  # threads of a launch; larger launches use blocks of GPU_BLOCK_THREADS [ground]
GPU_SEQUENCE_MAX_ROWS = 128  # rows (two for a free body) of a robot whose steps are written out; others loop [ground]
GPU_SEQUENCE_MAX_BYTES = 1 << 16  # bytes of its slots in local memory, without cold slots if need be [ground]
GPU_FOLD_MAX_SHARE = 0.85  # a program is folded if at most this share of its text remains [ground]
GPU_SEQUENCE_REGISTERS = 200  # values of a written-out program that are kept in registers [ground]
GPU_WRITTEN_OUT_STEP_ROWS = 64  # rows; steps of larger robots are not written out by default [rollouts]
GPU_OUTPUTS_BY_ROWS = 32  # results of a lane that its thread writes directly; more go through shared memory [h200/]
GPU_TILE_BYTES = 32 << 10  # bytes of rows of a block in shared memory; wider rows come by columns [h200/]
GPU_LOCAL_MAX_BYTES = 1 << 15  # bytes of slots of a thread; more go to global memory [h200/]
GPU_MIN_ROOM = 64  # slots; kernels are made for rounded numbers of slots, so that robots share them [h200/]
GPU_PLAIN_MIN_LINES = 12_000  # lines of LLVM text; to optimise more doubles the time for 1 line in 60 [h200/]
GPU_CHUNK_ROWS = 16  # the fewest rows of a huge tree that a lane walks: few turns in a row [million]
GPU_MAX_CHUNKS = 40_000  # lanes that fill the device [million]
GPU_PAIRS_THREADS = 64  # threads of a block that writes a dense matrix [h200/mass_matrix]
GPU_PAIRS_COLUMNS = 2  # columns of a thread, a block apart: the row's numbers are read once [h200/mass_matrix]
GPU_PAIRS_ROWS = 4  # rows that a thread takes in one turn [h200/mass_matrix]
GPU_PAIRS_STRIP_ROWS = 64  # rows that a thread goes down, its columns in registers [h200/mass_matrix]

# -- both --------------------------------------------------------------------------------------------------------------
INPUTS_IN_REGISTERS = 32  # inputs of a lane that a written-out program reads at its start [cpu/, h200/]
EAGER_MAX_CALLS = 512  # compiled calls of one primitive that are kept

# -- the cache on disk -------------------------------------------------------------------------------------------------
CACHE_MAX_MB = 512  # megabytes that the folder may take; a program takes 0.02 to 0.3, a plan of a million rows 10 to 40
KEPT_HULL_MIN_CORNERS = 64  # corners; the tables of a hull take 0.15 ms a corner, its file 0.3 ms
KEPT_PLAN_MIN_ROWS = 100_000  # rows; smaller trees are planned in less time than a file is read [million]
CACHE_KEPT_SHARE = 0.75  # share of CACHE_MAX_MB left after tidying up, so that not every write has to tidy up again
CACHE_STALE_SECONDS = 3600  # seconds after which a temporary file is deleted: writing one takes milliseconds
CACHE_USED_SECONDS = 3600  # seconds for which an entry counts as just used, so that reading it writes nothing
