#!/usr/bin/env python3
"""Writes stubs of the C library as it was, so that what is linked with them runs on systems that are older than this one.

usage: old_glibc.py --floor 2.28 --compiler g++ --readelf readelf --output FOLDER

glibc keeps every version of a function that has changed, and a linker takes the newest. The stub of a library has its name and soname and
defines what the library had at the floor, in the version of that time. Linked in its place, it decides which versions are taken, and what came
later is an undefined symbol; cmake/old_glibc.cpp has what is needed of that. Functions that moved to libc.so.6 in glibc 2.34 are put
where they were before.
"""
import argparse
import collections
import re
import subprocess
from pathlib import Path

FORMER_HOMES = {"pthread_": "libpthread.so.0", "sem_": "libpthread.so.0", "dl": "libdl.so.2"}  # by how a name begins
LIBRARIES = ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"]
SYMBOL = re.compile(r" (\d+) (FUNC|IFUNC|OBJECT|TLS) +(?:GLOBAL|WEAK) +DEFAULT +\d+ (\w+)(@@?)GLIBC_([\d.]+)$", re.MULTILINE)
SECTIONS = {"function": ".text", "object": ".bss", "tls_object": '.tbss,"awT",%nobits'}
KINDS = {"FUNC": "function", "IFUNC": "function", "OBJECT": "object", "TLS": "tls_object"}


def number(version):
    return tuple(map(int, version.split(".")))


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def as_of(symbols, floor):
    """Name, kind, size and version of what programs could be linked with: of each symbol its newest version up to the floor."""
    versions, linkable = collections.defaultdict(list), {}
    for size, kind, name, mark, version in SYMBOL.findall(symbols):
        versions[name].append(version)
        if mark == "@@":
            linkable[name] = KINDS[kind], int(size)
    for name, (kind, size) in sorted(linkable.items()):
        old = [one for one in versions[name] if number(one) <= floor]
        if old:
            yield name, kind, size, max(old, key=number)


def library_of(name, where):
    if where == "libc.so.6":
        return next((home for prefix, home in FORMER_HOMES.items() if name.startswith(prefix)), where)
    return where


def write_stub(folder, library, symbols, compiler):
    source, nodes = folder / f"{library}.s", folder / f"{library}.map"
    by_version, lines = collections.defaultdict(list), []
    for name, kind, size, version in symbols:
        by_version[version].append(name)
        section, room = SECTIONS[kind], 1 if kind == "function" else size
        lines.append(f".section {section}\n.globl {name}\n.type {name},%{kind}\n.size {name},{size}\n{name}: .zero {room}\n")
    lines.append('.section .note.GNU-stack,"",%progbits\n')
    source.write_text("".join(lines), encoding="utf-8")
    nodes.write_text("".join(f"GLIBC_{version} {{ {''.join(f'{name}; ' for name in names)}}};\n"
                             for version, names in sorted(by_version.items())), encoding="utf-8")
    subprocess.run([compiler, "-shared", "-nostdlib", f"-Wl,-soname,{library}", f"-Wl,--version-script={nodes}",
                    "-o", folder / library, source], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--floor", required=True, type=number)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--readelf", required=True)
    parser.add_argument("--output", required=True, type=Path)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    stubs = collections.defaultdict(list)
    for where in ("libc.so.6", "libm.so.6"):
        path = output_of(options.compiler, f"-print-file-name={where}").strip()
        for symbol in as_of(output_of(options.readelf, "--wide", "--dyn-syms", path), options.floor):
            stubs[library_of(symbol[0], where)].append(symbol)
    for library in LIBRARIES:
        write_stub(options.output, library, stubs[library], options.compiler)


if __name__ == "__main__":
    main()
