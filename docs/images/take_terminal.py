"""Run a command in a real terminal of 80 columns and print its screen, for the text blocks of the documentation.

python docs/images/take_terminal.py 'cloze fill -m cloze-mini "She closed the [MASK] behind her."'
python docs/images/take_terminal.py --after 90 'cloze pretrain --data data -o run --config fast --budget 60m'

Needs tmux. With --after, the screen is taken after so many seconds and the command is interrupted.
"""

import argparse
import subprocess
import sys
import time

SESSION = "cloze-capture"


def tmux(*arguments: str) -> str:
    """Run tmux and return what it prints."""
    return subprocess.run(["tmux", *arguments], check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Print the screen with the command in its first line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command")
    parser.add_argument("--after", type=float, help="seconds (default: when the command ends)")
    parser.add_argument("--columns", default="80")
    arguments = parser.parse_args()
    script = f"{arguments.command}; tmux wait-for -S {SESSION}; sleep 1000"
    tmux("new-session", "-d", "-s", SESSION, "-x", arguments.columns, "-y", "60", "sh", "-c", script)
    try:
        if arguments.after:
            time.sleep(arguments.after)
        else:
            tmux("wait-for", SESSION)
        screen = tmux("capture-pane", "-p", "-t", SESSION).rstrip()
        sys.stdout.write(f"$ {arguments.command}\n{screen}\n")
    finally:
        tmux("kill-session", "-t", SESSION)


if __name__ == "__main__":
    main()
