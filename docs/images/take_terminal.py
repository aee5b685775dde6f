"""Run a command in a real terminal of 80 columns and write its screen, as text or as a picture.

python docs/images/take_terminal.py 'cloze fill -m cloze-mini "She closed the [MASK] behind her."'
python docs/images/take_terminal.py --svg docs/images/terminal-train.svg --after 20 \
    'cloze finetune classification -m cloze-mini -d examples/authors.csv --label-column author -o authors'

Needs tmux. --after SECONDS takes the screen before the command ends.
"""

import argparse
import io
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

NAME = "cloze-capture"
SERVER = ["tmux", "-L", NAME, "-f", "/dev/null"]
"""A server of its own, which has this environment and no configuration."""
MAX_LINES = 60
SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" class="rich-terminal">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""The template of rich without its fonts, which would be loaded from the network."""


def tmux(*arguments: str) -> str:
    """Run tmux and return what it prints."""
    return subprocess.run([*SERVER, *arguments], check=True, capture_output=True, text=True).stdout


def take_screen(command: str, columns: int, after: float | None) -> str:
    """Return the command and its screen, with the escape sequences of colors."""
    script = f"{command}; tmux -L {NAME} wait-for -S {NAME}; sleep 1000"
    size = ["-x", str(columns), "-y", str(MAX_LINES)]
    # The first window has the default terminal, which has few colors; the second has another.
    tmux("new-session", "-d", "-s", NAME, *size, "sleep 1000")
    try:
        tmux("set-option", "-g", "default-terminal", "tmux-256color")
        tmux("new-window", "-t", NAME, "sh", "-c", script)
        if after is None:
            tmux("wait-for", NAME)
        else:
            time.sleep(after)
        screen = tmux("capture-pane", "-p", "-e", "-t", NAME)
        if after is not None:
            tmux("wait-for", NAME)
    finally:
        tmux("kill-server")
    return f"$ {command}\n{screen.rstrip()}\n"


def to_svg(screen: str, columns: int) -> str:
    """Return a picture of a screen, with the command as title."""
    console = Console(width=columns, record=True, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(screen))
    svg = console.export_svg(title="", code_format=SVG, unique_id="terminal")
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines())


def main() -> None:
    """Write the screen with the command in its first lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("command")
    parser.add_argument("--after", type=float, help="seconds (default: when the command ends)")
    parser.add_argument("--columns", type=int, default=80)
    parser.add_argument("--svg", type=Path, help="picture to write instead of text")
    arguments = parser.parse_args()
    screen = take_screen(arguments.command, arguments.columns, arguments.after)
    if arguments.svg is None:
        sys.stdout.write(Text.from_ansi(screen).plain + "\n")
    else:
        arguments.svg.write_text(to_svg(screen, arguments.columns), "utf-8")


if __name__ == "__main__":
    main()
