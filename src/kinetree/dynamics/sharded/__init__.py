"""One tree over several devices: each holds a part of it, and small elements are all that passes between them."""
