"""``weft`` and ``python -m weft``."""

import os
import signal
import sys


def main() -> None:
    """Run the command line; an interruption while it is imported is one line too."""
    # weft has no plugins of pydantic; to look for them is to read the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        from weft.apps.cli import main
    except KeyboardInterrupt:
        print("weft: interrupted", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    main()


if __name__ == "__main__":
    main()
