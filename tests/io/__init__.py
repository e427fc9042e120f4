"""Tests of robot files and conventions."""
