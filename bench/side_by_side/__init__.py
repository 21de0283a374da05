"""Xyntra beside other runtimes: the parts of bench/compare."""
