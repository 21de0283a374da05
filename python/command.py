#!python
"""Starts the command that lies in the package, in place of this process; the package itself is not imported."""
import importlib.util
import os
import signal
import sys

for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what is ignored stays so
    signal.signal(number, signal.SIG_DFL)
package = importlib.util.find_spec("xyntra").submodule_search_locations[0]
os.execv(os.path.join(package, "xyntra"), ["xyntra", *sys.argv[1:]])
