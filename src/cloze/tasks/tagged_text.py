"""A text whose words are tagged: what the tagging family takes for an example."""

from dataclasses import dataclass

from cloze.tasks.conll import Sentence

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TaggedText:
    """An example: a sentence, or the sentences of a document, each of which sees the others around it."""

    sentences: tuple[Sentence, ...]
    text: str | None = None
    """Where the words were found in a running text."""
    document: str | None = None
    """File and line of the document that a sentence was taken from."""

    def placed(self) -> tuple[str, list[list[Span]]]:
        """Return the text, and the characters of the words of each sentence in it.

        Of words alone it is made: a space between them, a line for each sentence.
        """
        if self.text is not None:
            return self.text, [list(sentence.offsets or ()) for sentence in self.sentences]
        lines, spans = [], []
        at = 0
        for sentence in self.sentences:
            own = []
            for word in sentence.words:
                own.append((at, at + len(word)))
                at += len(word) + 1
            spans.append(own)
            lines.append(" ".join(sentence.words))
        return "\n".join(lines), spans
