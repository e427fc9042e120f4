#!/bin/bash
# A run of 8 000 worlds by four processes on this machine, joined at the end. Killed, it goes on where it was.
kinetree simulate "${1:-chain:7}" --time 1 --batch 8000 --processes 4 --checkpoint run.ckpt --out run.npz
