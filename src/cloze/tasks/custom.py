"""Tasks on the user's own data. The columns are settings; labels are found in the training data."""

from collections.abc import Iterator

from cloze.data.reading.columns import Column
from cloze.data.reading.memory import Source
from cloze.data.reading.tables import Row
from cloze.tasks.families.multiple_choice import MultipleChoice
from cloze.tasks.families.passage_ranking import PassageRanking
from cloze.tasks.families.sentence_vectors import SentenceVectors
from cloze.tasks.families.sequence_classification import ClassPrediction, SequenceClassification
from cloze.tasks.families.tagging import Tagging
from cloze.tasks.families.text_regression import TextRegression
from cloze.tasks.registry import register_task
from cloze.tasks.texts import CustomTexts, LabeledText


@register_task("classification")
class Classification(CustomTexts[ClassPrediction], SequenceClassification):
    """Texts or pairs with a label each."""

    data_format = "TSV, CSV, JSON lines or Parquet: a text, or two, and a label"
    source = "your own data; Devlin et al. 2019, 4.1"


@register_task("regression")
class Regression(CustomTexts[float], TextRegression):
    """Texts or pairs with a number each."""

    data_format = "TSV, CSV, JSON lines or Parquet: a text, or two, and a number"
    source = "your own data; Devlin et al. 2019, 4.1 (STS-B)"


@register_task("scored-pairs")
class ScoredPairs(CustomTexts[float], SentenceVectors):
    """Pairs of texts with a similarity score each."""

    data_format = "TSV, CSV, JSON lines or Parquet: two texts and a number"
    source = "your own data; Reimers and Gurevych 2019, 3"
    columns = (  # some are called otherwise by sentence-transformers
        Column("text", names=("text", "sentence1"), setting="text_column"),
        Column("pair", names=("pair", "sentence2"), setting="pair_column"),
        *CustomTexts.columns[2:],
    )

    pair_column: str = "pair"
    label_column: str = "score"


@register_task("ranking")
class Ranking(CustomTexts[float], PassageRanking):
    """Queries and passages with a relevance each; the candidates of a query are all rows with its text."""

    data_format = "TSV, CSV, JSON lines or Parquet: a query, a passage, its relevance from 0"
    source = "your own data; Nogueira and Cho 2019"

    text_column: str = "query"
    pair_column: str = "passage"

    def gold_examples(self, source: Source) -> Iterator[LabeledText]:
        """Read all columns: the query says which passages are ranked together."""
        return self.examples(source)


@register_task("multiple-choice")
class CustomMultipleChoice(MultipleChoice):
    """Prompts with any number of choices. A label is the index of a choice, counted from 0."""

    data_format = "TSV, CSV, JSON lines or Parquet: a text, a list of choices, the number of the right one"
    source = "your own data; Devlin et al. 2019, 4.4"

    columns = (
        Column("prompt", setting="text_column"),
        Column("choices", "texts", setting="choices_column"),
        Column("label", "label", setting="label_column"),
    )

    text_column: str = "prompt"
    choices_column: str = "choices"
    """A list of texts; in TSV and CSV as JSON in one cell."""
    choice_columns: tuple[str, ...] = ()
    """One column per choice, as in TSV and CSV, instead of `choices_column`."""
    label_column: str = "label"

    def named_columns(self) -> tuple[Column, ...]:
        """Return the columns of the prompt, of the list of choices or of each choice, and of the label."""
        columns = super().named_columns()
        if not self.choice_columns:
            return columns
        of_choices = (Column(name, setting="choice_columns") for name in self.choice_columns)
        return (*of_choices, *(column for column in columns if column.key != "choices"))

    def choices(self, row: Row) -> list[str]:
        """Return the choices of a row."""
        return [row.text(column) for column in self.choice_columns] or row.texts("choices")


@register_task("tagging")
class CustomTagging(Tagging):
    """Tagged words in CoNLL columns."""

    source = "your own data; Devlin et al. 2019, 5.3; score as conlleval"
    train_files = ("train.conll", "train.txt", "train.tsv")
    dev_files = ("dev.conll", "valid.txt", "dev.txt", "dev.tsv")
