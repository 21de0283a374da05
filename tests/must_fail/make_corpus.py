#!/usr/bin/env python3
"""Writes the hostile and broken ONNX files of tests/must_fail/onnx, and a .test beside each that has none yet.

usage: python tests/must_fail/make_corpus.py     (needs the PyPI package onnx; the result is checked in)

A case is a function in one of corpus/*.py that returns the bytes of a file; its docstring is the reason that heads
the test. After adding one: run this, then `scripts/golden --update tests/must_fail/onnx/NAME.test`, then read the
message.
"""
import importlib

from corpus.pieces import CASES, FOLDER

FAMILIES = ["bytes_and_header", "operators", "names", "types", "tensors", "strings", "external_data", "functions", "subgraphs"]


def main():
    FOLDER.mkdir(exist_ok=True)
    for family in FAMILIES:
        importlib.import_module(f"corpus.{family}")
    for name, make in CASES.items():
        made = make()
        data = made if isinstance(made, bytes) else made.SerializeToString()
        (FOLDER / f"{name}.onnx").write_bytes(data)
        test = FOLDER / f"{name}.test"
        if not test.exists():
            test.write_text(f"# {make.__doc__}\n# RUN: xyntra run %dir/{name}.onnx\n# EXIT: 4\n# ERR:\n")
    print(f"{len(CASES)} files")


if __name__ == "__main__":
    main()
