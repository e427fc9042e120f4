"""What all walks over the stages of a tree know of a row: where its constants stand among the fields of a cell."""

import jax

from kinetree.model import Axis

from .lane_rows import PLACEMENT, ROWS
from .stage_passes import in_array

NUMBER, NOTHING = jax.tree.structure(0.0), jax.tree.structure(())
AXIS = Axis(0.0, 0.0)

COUNT = ROWS.num_leaves
CONSTANT = jax.tree.unflatten(ROWS, range(COUNT))

# the frame and the axis of a row, which is what moves it
FRAME = jax.tree.structure((*PLACEMENT, AXIS))
FRAME_FIELDS = in_array(0, (CONSTANT.orientation, CONSTANT.position, CONSTANT.axis))
