"""One tree over several devices: each has a part of it, and only small elements pass between them."""
