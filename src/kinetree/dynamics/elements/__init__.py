"""Elements: what a stretch of rows does to accelerations and forces, and what two in a row make."""
