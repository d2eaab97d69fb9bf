"""``weft`` and ``python -m weft``."""

import signal
import sys


def main() -> None:
    """Run the command line; an interruption while it is imported is one line too."""
    try:
        from weft.cli import main
    except KeyboardInterrupt:
        print("weft: interrupted", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    main()


if __name__ == "__main__":
    main()
