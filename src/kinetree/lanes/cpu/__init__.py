"""Machine code for this CPU: how it is made, called from Python and shared among threads."""
