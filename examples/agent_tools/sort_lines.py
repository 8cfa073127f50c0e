"""A command as a tool: arguments as JSON on its input, the result as JSON on its output."""

import json
import sys

json.dump(sorted(json.load(sys.stdin)["lines"]), sys.stdout)
