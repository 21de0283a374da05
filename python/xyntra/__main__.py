"""python -m xyntra: the command, in place of this process."""

import os
import signal
import sys

for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what is ignored stays so
    signal.signal(number, signal.SIG_DFL)
os.execv(os.path.join(os.path.dirname(os.path.abspath(__file__)), "xyntra"), ["xyntra", *sys.argv[1:]])
