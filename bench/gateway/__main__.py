"""`python bench/gateway`: the benchmark as a command."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from gateway.run import main  # noqa: E402 - it is found only now

if __name__ == "__main__":
    sys.exit(main())
