"""Looking at mechanisms: plots (the extra `plot`) and a browser viewer (the extra `view`)."""
