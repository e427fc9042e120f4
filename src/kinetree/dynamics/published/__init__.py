"""Forward dynamics by methods as they were published, for comparison and for teaching."""
