"""Draw the diagrams of the documentation: `python docs/pictures/draw.py`. They follow light and dark color schemes."""

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

STYLE = """
.picture{--ink:#1f2430;--soft:#5b6472;--line:#8a94a3;--empty:#eceff3;--a:#d5e4fb;--b:#fde3c2;--c:#d3efdc;--d:#eadcf8;
font-family:ui-sans-serif,system-ui,"Segoe UI",Helvetica,Arial,sans-serif;font-size:14px}
@media (prefers-color-scheme:dark){.picture{--ink:#e8eaee;--soft:#aab2bf;--line:#7d8796;--empty:#2a2e36;--a:#274a80;
--b:#7a4a12;--c:#1d5c37;--d:#553380}}
.picture text{fill:var(--ink)}.picture .soft{fill:var(--soft);font-size:12.5px}.picture .mono{font-family:ui-monospace,
Menlo,Consolas,monospace;font-size:13px}.picture .strong{font-weight:600}
.picture .a{fill:var(--a)}.picture .b{fill:var(--b)}.picture .c{fill:var(--c)}.picture .d{fill:var(--d)}
.picture .empty{fill:var(--empty)}.picture rect{stroke:var(--line);stroke-width:1}
.picture path{stroke:var(--line);stroke-width:1.5;fill:none}.picture marker path{fill:var(--line);stroke:none}
""".replace("\n", "")

ARROW = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z"/></marker></defs>'
)


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    """Return text with its baseline at y."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str, words: str = "", style: str = "") -> str:
    """Return a box with centered text."""
    drawn = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" class="{kind}"/>'
    return drawn + (text(x + width / 2, y + height / 2 + 5, words, style) if words else "")


def arrow(*points: tuple[float, float]) -> str:
    """Return an arrow through the points."""
    path = "L".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path d="M{path}" marker-end="url(#tip)"/>'


def picture(width: int, height: int, title: str, description: str, parts: Sequence[str]) -> str:
    """Return the SVG; title and description are read by screen readers."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><title>{escape(title)}</title><desc>{escape(description)}</desc>'
        f"<style>{STYLE}</style>{ARROW}{''.join(parts)}</svg>\n"
    )


def data_path() -> str:
    """Draw the eight steps from files to the loss."""
    steps = [
        ("files", "text, JSON,\nParquet, .xz …", "a"),
        ("documents", "cleaned, split\ninto sentences", "a"),
        ("tokens", "ids of the\nvocabulary", "a"),
        ("instances", "pairs A, B;\nmasked tokens", "b"),
        ("packed batch", "end to end,\nno padding", "b"),
        ("encoder", "a vector for\neach token", "c"),
        ("head", "words, labels,\nspans, tags", "c"),
        ("loss", "or an answer", "d"),
    ]
    parts = []
    for i, (name, note, kind) in enumerate(steps):
        x, y = 10 + (i % 4) * 182, 14 + (i // 4) * 130
        parts.append(box(x, y, 150, 38, kind, name, "strong"))
        parts += [
            text(x + 75, y + 58 + 17 * line, words, "soft") for line, words in enumerate(note.split("\n"))
        ]
        if i % 4 < 3:
            parts.append(arrow((x + 152, y + 19), (x + 180, y + 19)))
    parts.append(arrow((631, 96), (631, 116), (85, 116), (85, 142)))
    names = ", then ".join(name for name, _, _ in steps)
    return picture(720, 230, "The data path", f"Eight steps in order: {names}.", parts)


def three_embeddings() -> str:
    """Draw the sum in figure 2 of the paper."""
    tokens = ["[CLS]", "my", "dog", "is", "cute", "[SEP]", "he", "likes", "play", "##ing", "[SEP]"]
    segments = ["A"] * 6 + ["B"] * 5
    parts = []
    rows = (
        ("token", 52, [f"E({token.strip('[]')})" for token in tokens]),
        ("segment", 112, [f"E({segment})" for segment in segments]),
        ("position", 172, [f"E({position})" for position in range(len(tokens))]),
    )
    for column, (token, segment) in enumerate(zip(tokens, segments, strict=True)):
        x = 84 + column * 66
        parts.append(text(x + 30, 26, token, "mono"))
        for (_, y, labels), kind in zip(rows, ("d", "a" if segment == "A" else "b", "c"), strict=True):
            label = labels[column]
            parts.append(box(x, y, 60, 32, kind, label, "soft" if len(label) > 6 else ""))
            if y > 60:
                parts.append(text(x + 30, y - 9, "+"))
        parts.append(arrow((x + 30, 206), (x + 30, 226)))
        parts.append(box(x, 228, 60, 22, "empty"))
    parts += [text(74, y + 21, name, "strong", "end") for name, y, _ in rows]
    parts.append(text(74, 244, "sum", "strong", "end"))
    description = (
        "Eleven tokens of a sentence pair. Three embeddings are added for each: that of the token, that of its "
        "segment, A for the first six and B for the last five, and that of its position, 0 to 10."
    )
    return picture(822, 262, "The input of the encoder", description, parts)


LENGTHS = (9, 14, 5, 11, 7, 12)
_KINDS = "abcdab"


def packed() -> str:
    """Draw six texts in a padded batch and end to end."""
    cell, longest = 17, max(LENGTHS)
    parts = [text(10, 20, f"padded: {longest * len(LENGTHS)} positions", "strong", "start")]
    for row, (length, kind) in enumerate(zip(LENGTHS, _KINDS, strict=True)):
        for column in range(longest):
            filled = kind if column < length else "empty"
            parts.append(box(10 + column * cell, 32 + row * 24, cell - 2, 18, filled))
    right = 10 + longest * cell + 30
    parts.append(text(right, 20, f"packed: {sum(LENGTHS)} positions", "strong", "start"))
    position = 0
    starts = [0]
    for length, kind in zip(LENGTHS, _KINDS, strict=True):
        for _ in range(length):
            parts.append(box(right + position % 20 * cell, 32 + position // 20 * 24, cell - 2, 18, kind))
            position += 1
        starts.append(position)
    parts.append(text(right, 128, "sequences begin at", "soft", "start"))
    parts.append(text(right, 148, f"cu_seqlens = {starts}", "mono", "start"))
    num_positions = longest * len(LENGTHS)
    description = (
        f"Six texts of {', '.join(map(str, LENGTHS))} tokens. Padded to a rectangle they take {num_positions} "
        f"positions, {num_positions - sum(LENGTHS)} of them empty. End to end they take {sum(LENGTHS)}, and a list "
        "holds the start of each."
    )
    return picture(660, 186, "A padded and a packed batch", description, parts)


def masking() -> str:
    """Draw the three replacements of selected tokens."""
    words = ["my", "dog", "is", "hairy"]
    parts = [text(10, 40, "text", "strong", "start")]
    for i, word in enumerate(words):
        parts.append(box(110 + i * 92, 20, 84, 30, "b" if word == "hairy" else "empty", word, "mono"))
    parts.append(text(500, 33, "“hairy” is among the 15%", "soft", "start"))
    parts.append(text(500, 50, "that are selected", "soft", "start"))
    rows = (
        ("80%", "[MASK]", "a", "masked"),
        ("10%", "apple", "d", "a random token"),
        ("10%", "hairy", "c", "unchanged"),
    )
    for row, (share, word, kind, note) in enumerate(rows):
        y = 84 + row * 44
        parts.append(text(10, y + 20, share, "strong", "start"))
        for i, shown in enumerate([*words[:3], word]):
            parts.append(box(110 + i * 92, y, 84, 30, kind if i == 3 else "empty", shown, "mono"))
        parts.append(text(500, y + 20, note, "soft", "start"))
    parts.append(text(10, 236, "In all three cases the model must predict “hairy”.", "soft", "start"))
    description = (
        "In the text my dog is hairy the token hairy is selected. In 80% of such cases it becomes [MASK], in 10% a "
        "random token, here apple, and in 10% it is unchanged. The model must predict hairy each time."
    )
    return picture(720, 250, "Replacement of the selected tokens", description, parts)


def attention_mask() -> str:
    """Draw the attention masks of a left-to-right model and of BERT."""
    words = ["he", "sat", "on", "the", "bank"]
    cell = 40

    def grid(left: float, title: str, attends: Callable[[int, int], bool], kind: str) -> list[str]:
        drawn = [text(left + cell * len(words) / 2, 22, title, "strong")]
        for row, word in enumerate(words):
            drawn.append(text(left - 8, 74 + row * cell, word, "mono", "end"))
            drawn.append(text(left + (row + 0.5) * cell, 44, word, "mono"))
            drawn += [
                box(
                    left + column * cell,
                    52 + row * cell,
                    cell - 3,
                    cell - 3,
                    kind if attends(row, column) else "empty",
                )
                for column in range(len(words))
            ]
        return drawn

    parts = [
        *grid(70, "left to right", lambda row, column: column <= row, "b"),
        *grid(400, "BERT", lambda row, column: True, "a"),
        text(70, 276, "row: the query token", "soft", "start"),
        text(400, 276, "filled: the keys it attends to", "soft", "start"),
    ]
    description = (
        "Two squares of five by five, a row for each token of he sat on the bank. In the left-to-right model a token "
        "attends to itself and the tokens before it, a triangle. In BERT every token attends to every token."
    )
    return picture(640, 290, "Attention masks", description, parts)


PICTURES = {
    "data-path": data_path,
    "three-embeddings": three_embeddings,
    "packed": packed,
    "masking": masking,
    "attention-mask": attention_mask,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        Path(__file__).with_name(f"{name}.svg").write_text(draw(), "utf-8")
