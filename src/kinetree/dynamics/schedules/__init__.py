"""The schedules: each makes its programs from the passes of an algorithm."""
