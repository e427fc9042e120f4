"""What a lane program is: loops over slots, written out or woven, its derivatives, and the XLA body."""
