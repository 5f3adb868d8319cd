"""``python -m bilsh.benchmark``."""

import sys

from bilsh.benchmark.program import main

if __name__ == "__main__":
    sys.exit(main())
