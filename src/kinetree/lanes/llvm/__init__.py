"""LLVM text from steps: values, instructions, elementary functions, the loops of a program, frames of XLA's calls."""
