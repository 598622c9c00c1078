# SPDX-License-Identifier: Apache-2.0
"""A trainer, and a server that follows it. `python -m examples.online --help`"""

import argparse
import sys

from examples import console


def main(arguments, stop):
    parser = argparse.ArgumentParser(
        prog="python -m examples.online", description=__doc__.splitlines()[0].partition(" `")[0]
    )
    parser.add_argument("--folder", help="of the checkpoints; by default one that is removed")
    parser.add_argument("--turn-seconds", type=float, default=60.0, help="see stream.py")
    parser.add_argument("--save-seconds", type=float, default=2.0, help="between two increments")
    parser.add_argument("--threads", type=int, default=4, help="that ask the server")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="until the end")
    parser.add_argument(
        "--fixed-after", type=float, default=5.0, help="seconds until one model stays as it is"
    )
    options = parser.parse_args(arguments)
    console.tell("a trainer and its server start, within some ten seconds; Ctrl-C ends both")
    console.quiet_tensorflow()
    from examples.online.server import serve

    return serve(options, stop)


if __name__ == "__main__":
    sys.exit(console.run(main, sys.argv[1:]))
