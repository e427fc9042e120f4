"""LLVM text from steps: values, instructions, sine and cosine, the loops of a program, the frame of an XLA call."""
