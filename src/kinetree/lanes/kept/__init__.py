"""Things made once and kept: caches in memory and on disk, their names, and warnings given once."""
