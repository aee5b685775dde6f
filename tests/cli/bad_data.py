"""Wrong labeled data, texts to predict and vocabularies: more rows of `bad_inputs`, each with its remedy."""

import json
from pathlib import Path

from bad_inputs import (
    CASES,
    FINETUNE,
    GOOD_TEXT,
    INIT,
    LINE,
    PAIRS,
    PRETRAIN,
    SPECIAL,
    Case,
    Prepare,
    bad_prediction,
    bad_table,
    bad_tags,
    bad_text,
    bad_vocabulary,
    case,
    external,
    set_config,
    write_text,
)
from remedies import (
    ICONV,
    NOT_RUN,
    REMEDIES,
    Edit,
    Remedy,
    copied,
    file,
    instead,
    more,
    renamed,
    replaced,
    shell,
)
from samples import Samples

V = " --validate"
WORDS = b"text\tlabel\n" + b"It was\ta\nThe rain\tb\n" * 8
ROWS = '{"text": "It was", "label": 0}\n{"text": "The rain", "label": 1}\n' * 8
TAGGED = b"Ada B-PER\nran O\n\nBo B-PER\nfell O\n\n" * 8
SPANS = '{"text": "Ada ran", "label": [[0, 3, "PER"]]}\n' * 8
TOKENS = '{"tokens": ["Ada", "ran"], "ner_tags": ["B-PER", "O"]}\n' * 8


def csv_of(name: str) -> Remedy:
    """Call a file as the line says."""
    return Remedy(r"[Cc]all the file (\.\w+)", {f"/{name}": f"/{Path(name).stem}{{0}}", "": V}, renamed(name))


def iconv(name: str) -> Remedy:
    """Convert a file as the line says, and validate."""
    return Remedy(ICONV.says, {"": V}, shell(name))


def good(name: str, content: str | bytes, says: str) -> Remedy:
    """Write the file as the line says, and validate."""
    return file(says, name, content, replace={"": V})


def valid(says: str, new: str = " {0}", edit: Edit | None = None) -> Remedy:
    """Add a flag that the line says, and validate."""
    return Remedy(says, {"": new + V}, edit) if edit else Remedy(says, {"": new + V})


def tagged_csv(first: str) -> str:
    return first + "1,Ada,B-PER\n1,ran,O\n2,Bo,B-PER\n2,fell,O\n" * 8


ANNOTATION = {"result": [{"value": {"start": 0, "end": 3, "labels": ["X"]}}]}


def label_studio(*annotations: object) -> str:
    return json.dumps([{"data": {"text": "Ada ran"}, "annotations": annotations}] * 8)


def two_files(*names_and_contents: tuple[str, bytes]) -> Prepare:
    def prepare(tmp: Path, samples: Samples) -> None:
        for name, content in names_and_contents:
            (tmp / name).write_bytes(content)

    return prepare


DATA_REMEDIES: dict[str, Remedy] = {
    "a row too short": good("a.tsv", WORDS, "A (tab) separates two cells"),
    "an empty label": Remedy(
        "(No row has a label)", {"": V}, replaced("a.tsv", "a\t\n", WORDS.decode()[11:])
    ),
    "an open quotation": good(
        "a.csv", b'text,label\n"""a",b\nc,d\n' + b"e,d\ne,b\n" * 9, "(Quotation marks) in a cell are doubled"
    ),
    "a row that is not JSON": good("a.jsonl", ROWS, "Give (one object) a line"),
    "a row that is a list": good("a.jsonl", ROWS, "Give (one object) a line"),
    "a cell that is an object": good("a.jsonl", ROWS, "(write this one) as text"),
    "a table in UTF-16": iconv("a.tsv"),
    "a table in Latin-1": iconv("a.tsv"),
    "a row of 11 MB": good("a.tsv", WORDS, "or (split it)"),
    "one label": good("a.tsv", WORDS, "examples of (two labels) at least"),
    "one example": good("a.tsv", WORDS, "examples of (two labels) at least"),
    "sentences without tags": good("a.txt", TAGGED, r"Tags are O, or B, .* as in (B-PER)"),
    "tags without a scheme beside O": valid(
        r"(--set tagging\.scheme=plain)",
        edit=replaced("a.conll", "ran O\n", "ran O\n\n" + "Ada PER\nran O\n\n" * 8),
    ),
    "a stray tag": valid(
        r"(--set tagging\.stray=as-conlleval)", edit=replaced("a.conll", "b O", "b O\n\nx B-A\n\nd O")
    ),
    "tags in a table with commas": good(
        "a.csv", tagged_csv("sentence_id,word,tag\n"), "Name them there: (sentence_id,word,tag)"
    ),
    "a text without spans": good(
        "a.jsonl", SPANS, r"Give ('label') or 'entities', a list of \[start, end, label\]"
    ),
    "a span beyond the text": good("a.jsonl", SPANS, "(Spans count characters from 0)"),
    "spans that overlap": good("a.jsonl", SPANS, "(leave one of the spans)"),
    "numbers without names": valid(
        r"--set '(tagging\.tag_names)=",
        """ --set '{0}=["O", "B-PER"]'""",
        replaced("a.jsonl", "}\n", '}\n{"tokens": ["Bo"], "ner_tags": [1]}\n'),
    ),
    "two fields of tags": valid(
        r"Choose one of '(pos_tags)', .* with (--set tagging\.tags_field)=NAME",
        " {1}={0}",
        lambda tmp, found, samples: (tmp / "a.jsonl").write_text(
            '{"tokens": ["a", "b"], "pos_tags": ["X", "Y"], "ner_tags": ["O", "O"]}\n' * 9
        ),
    ),
    "an unknown label": Remedy("The labels are (0), 1", {"": V}, replaced("dev.tsv", "unheard", "{0}")),
    "a length beyond the model": Remedy(
        "Say (--max-seq-length 32)", {"--set max_seq_length=64": "{0}", "": V}
    ),
    "a negative that belongs to its text": Remedy(
        "or (leave its cell empty)", {"": V}, replaced("a.tsv", "e\td\td", "e\td\t")
    ),
    "no column of negatives": Remedy(
        "There are 'text', '(pair)'",
        {"--set text-pairs.negative_column=bad": "", "": V},
        replaced("a.tsv", "a\tb\n", "a\tb\nc\td\n"),
    ),
    "pairs and negatives that are all equal": Remedy(
        "give (two different) second texts", {"": V}, replaced("a.tsv", "c\tb", "c\td")
    ),
    "classes of vectors": instead("(Leave it out)", " --top-k 2", ""),
    "predict with an encoder": instead("(cloze finetune classification)", "-m {run}", "-m {classifier}"),
    "predict without the column": more(
        r"There are '(\w+)'; say which it is with (--text-column) NAME", " {1} {0}"
    ),
    "predict on a directory": Remedy(
        "Name a (file) in it",
        {"{tmp} -o": "{tmp}/a.txt -o"},
        lambda tmp, found, samples: (tmp / "a.txt").write_text("It was\n"),
    ),
}


def spoil_vocabulary(copy: Path) -> None:
    (copy / "tokenizer.json").unlink()
    lines = (copy / "vocab.txt").read_text("utf-8").splitlines()
    lines[300:300] = ["", ""]
    (copy / "vocab.txt").write_text("\n".join(lines) + "\n", "utf-8")
    set_config(vocab_size=len(lines) - 1)(copy)


NEW: dict[str, tuple[Case, Remedy | None]] = {
    # files and encodings
    "another encoding of a text": (
        bad_text("text", (LINE * 9).decode().encode("utf-16le"), ": text in UTF-16"),
        ICONV,
    ),
    "UTF-32": (bad_text("text", (LINE * 9).decode().encode("utf-32"), ": text in UTF-32"), ICONV),
    "a table in UTF-16 without a mark": (
        bad_table("a.tsv", WORDS.decode().encode("utf-16le"), "a.tsv: text in UTF-16"),
        iconv("a.tsv"),
    ),
    "a table of Windows": (
        bad_table(
            "a.csv",
            "text,label\n€ 5,a\nThe rain,b\n".encode("windows-1252") + b"c,a\nc,b\n" * 9,
            "a.csv:2: not UTF-8",
            "windows-1252",
        ),
        iconv("a.csv"),
    ),
    "texts to predict in Latin-1": (
        bad_prediction(
            "{tmp}/a.txt -o {out}",
            "a.txt:1: not UTF-8",
            prepare=write_text("It was né\n".encode("latin-1"), "a.txt"),
        ),
        Remedy(ICONV.says, edit=shell("a.txt")),
    ),
    "JSON lines in UTF-16": (
        bad_table("a.jsonl", ROWS.encode("utf-16"), "a.jsonl: text in UTF-16"),
        iconv("a.jsonl"),
    ),
    "tagged words in Latin-1": (
        bad_tags("a.conll", TAGGED + b"Zo\xeb B-PER\n", "a.conll:49: not UTF-8"),
        iconv("a.conll"),
    ),
    "lines that end in CR but the last": (
        bad_table(
            "a.csv",
            WORDS.replace(b"\t", b",").replace(b"\n", b"\r") + b"\n",
            "a.csv:1: a carriage return in a cell",
        ),
        Remedy(r"(tr '\\r' '\\n' < OLD > NEW)", {"": V}, shell("a.csv")),
    ),
    "tagged lines that end in CR but the last": (
        bad_tags("a.conll", TAGGED.replace(b"\n", b"\r") + b"\n", "a.conll:1: a carriage return in a line"),
        Remedy(r"(tr '\\r' '\\n' < OLD > NEW)", {"": V}, shell("a.conll")),
    ),
    "a spreadsheet called .csv": (
        bad_table("a.csv", b"PK\x03\x04" + b"x" * 99, "a.csv: a ZIP archive"),
        good("a.csv", WORDS.replace(b"\t", b","), "or (save it as text or CSV)"),
    ),
    "a spreadsheet as text": (
        bad_text("text", b"PK\x03\x04" + b"x" * 99, ": a ZIP archive"),
        file("or (save it as text or CSV)", "text", GOOD_TEXT),
    ),
    "a PDF": (bad_text("text", b"%PDF-1.7\n" + LINE, ": a PDF, not text", "pdftotext"), None),
    "a pointer of git-lfs": (
        bad_table("a.csv", b"version https://git-lfs.github.com/spec/v1\n", "a.csv: a pointer of git-lfs"),
        None,
    ),
    # columns and cells
    "another label column": (
        bad_table("a.tsv", WORDS.replace(b"label", b"stars"), "a.tsv:2: no column 'label'"),
        valid(r"say which it is with (--label-column) NAME", " {0} stars"),
    ),
    "no names of columns": (
        bad_table("a.csv", b"It was,a\n" + b"The rain,b\nThe wind,c\n" * 8, "a.csv:2: no column 'text'"),
        valid(r"if line 1 is a row, name all: (--column-names) text,label", " {0} text,label"),
    ),
    "a column twice": (
        bad_table(
            "a.csv", b"text,label,label\n" + b"a,x,x\nb,y,y\n" * 8, "a.csv:1: two columns are called 'label'"
        ),
        Remedy("(Rename) one of them", {"": V}, replaced("a.csv", "text,label,label", "text,label,other")),
    ),
    "separators at the ends of lines": (
        bad_table("a.csv", b"text,label,\n" + b"a,x,\nb,y,\n" * 8, "a.csv:1: column 3 has no name"),
        Remedy("remove the (separators) at the ends", {"": V}, replaced("a.csv", ",\n", "\n")),
    ),
    "a comma in a text": (
        bad_table("a.csv", b"text,label\n" + b"a,x\nb,y\n" * 8 + b"one, two,x\n", "a.csv:18: 3 cells"),
        Remedy("is written in (quotation marks)", {"": V}, replaced("a.csv", "one, two", '"one, two"')),
    ),
    "a semicolon in a text": (
        bad_table("a.csv", b"text;label\n" + b"a;x\nb;y\n" * 8 + b"one; two;x\n", "a.csv:18: 3 cells"),
        Remedy("is written in (quotation marks)", {"": V}, replaced("a.csv", "one; two", '"one; two"')),
    ),
    "a tab in a text": (
        bad_table("a.tsv", WORDS + b"one\ttwo\ta\n", "a.tsv:18: 3 cells"),
        Remedy("replace tabs within a text by (spaces)", {"": V}, replaced("a.tsv", "one\ttwo", "one two")),
    ),
    "text behind a quotation mark": (
        bad_table("a.csv", b'text,label\n"a" b,x\nb,y\n' + b"c,x\nc,y\n" * 8, "a.csv:2: ',' expected after"),
        Remedy("Quotation marks in a cell are (doubled)", {"": V}, replaced("a.csv", '"a" b', '"""a"" b"')),
    ),
    "quoted lines in a TSV": (
        bad_table("a.tsv", WORDS + b'"The\nwind"\ta\n', "a.tsv:18: 1 cells"),
        csv_of("a.tsv"),
    ),
    "a joined file": (
        bad_table(
            "a.tsv", WORDS + WORDS + b"The wind\ta\n", "a.tsv:18: this row has the names of the columns"
        ),
        good("a.tsv", WORDS + WORDS.partition(b"\n")[2], "(Remove this line)"),
    ),
    "a row that cannot be read": (
        bad_table("a.jsonl", ROWS.encode() + b'{"text": null, "label": 1}\n', "a.jsonl:17: 'text' is null"),
        valid("(--skip-bad-rows)"),
    ),
    "a list cut short": (
        bad_table("a.json", b"[" + ROWS.replace("\n", ",\n").encode(), "a.json: not JSON"),
        good("a.json", "[" + ROWS.rstrip().replace("\n", ",\n") + "]", "or (one list of objects)"),
    ),
    "texts in lists": (
        bad_table(
            "a.json", b'{"text": ["a"], "label": 0}\n{"text": ["b"], "label": 1}\n', "a.json:1: 'text' is ["
        ),
        good("a.json", ROWS, "(write this one) as text"),
    ),
    "a label that is a list": (
        bad_table(
            "a.jsonl",
            ROWS.replace("0}", '["a", "c"]}').replace("1}", '["b"]}').encode(),
            "a.jsonl:1: 'label' is a list",
        ),
        Remedy(
            "The task (multi-label) learns lists",
            {"finetune classification": "finetune {0}", "": " --label-column label" + V},
        ),
    ),
    "a table called text": (
        bad_prediction(
            "{tmp}/a.txt -o {out}",
            "a.txt:1: the first line names",
            prepare=write_text(b"id,text\n1,It was\n", "a.txt"),
        ),
        Remedy(r"Call the file (\.csv)", {"a.txt": "a{0}"}, renamed("a.txt")),
    ),
    "JSON lines called text": (
        bad_prediction(
            "{tmp}/a.txt -o {out}",
            "a.txt:1: JSON lines",
            prepare=write_text(b'{"text": "It was"}\n', "a.txt"),
        ),
        Remedy(r"Call the file (\.jsonl)", {"a.txt": "a{0}"}, renamed("a.txt")),
    ),
    "columns without names to predict": (
        bad_prediction(
            "{tmp}/a.txt -o {out}",
            "a.txt:1: columns with tabs",
            prepare=write_text(b"1\tIt was\n2\tHe\n", "a.txt"),
        ),
        Remedy("or write (spaces) for tabs", edit=replaced("a.txt", "\t", " ")),
    ),
    "no text to predict": (
        bad_prediction("{tmp}/a.txt -o {out}", "a.txt: contains no text", prepare=write_text(b"", "a.txt")),
        None,
    ),
    "a directory without the training file": (
        case(
            FINETUNE + "-m {run} -d {tmp}",
            "no train.tsv in this directory",
            prepare=write_text(WORDS, "a.tsv"),
        ),
        Remedy("Name the (file) itself", {"-d {tmp}": "-d {tmp}/a.tsv", "": V}),
    ),
    # labels
    "a row without a label": (
        bad_table("a.tsv", WORDS + b"The wind\t\n", "a.tsv:18: the cell 'label' is empty"),
        valid("(--missing-labels drop)"),
    ),
    "a null label": (
        bad_table(
            "a.jsonl",
            ROWS.encode() + b'{"text": "x", "label": null}\n',
            "a.jsonl:17: the cell 'label' is empty",
        ),
        valid("(--missing-labels drop)"),
    ),
    "a label that is NaN in JSON": (
        bad_table(
            "a.jsonl",
            ROWS.encode() + b'{"text": "x", "label": NaN}\n',
            "a.jsonl:17: the cell 'label' is empty",
        ),
        valid("(--missing-labels drop)"),
    ),
    "zeros and ones without names": (
        bad_table(
            "a.tsv",
            "text\tlabels\n" + "a\t[1, 0]\nb\t[0, 1]\n" * 8,
            "a.tsv:2: 'labels' is [1, 0]",
            task="multi-label",
        ),
        valid(r"--set '(multi-label\.labels)=", """ --set '{0}=["x", "y"]'"""),
    ),
    "a list of labels that cannot be read": (
        bad_table(
            "a.tsv",
            "text\tlabels\n" + "a\tx\nb\ty\n" * 8 + "c\t['x', 'y' 'z']\n",
            "a.tsv:18: ",
            "a list that cannot be read",
            task="multi-label",
        ),
        Remedy(
            "Write its labels with (',') between them",
            {"": V},
            replaced("a.tsv", "['x', 'y' 'z']", "x, y, z"),
        ),
    ),
    "a long array of NumPy": (
        bad_table(
            "a.tsv",
            "text\tlabels\n" + "a\tx\nb\ty\n" * 8 + "c\t[1 0 ... 0]\n",
            "a.tsv:18: ",
            "a list that cannot be read",
            task="multi-label",
        ),
        Remedy("or as (JSON)", {"": V}, replaced("a.tsv", "[1 0 ... 0]", '["x"]')),
    ),
    "a number that is a word": (
        bad_table(
            "a.csv",
            "text,label\n" + "a,1\nb,2\n" * 8 + "c,high\n",
            "a.csv:18: score 'high' is not a number",
            task="regression",
        ),
        Remedy("Write finite numbers without units, as in (4.5)", {"": V}, replaced("a.csv", "high", "{0}")),
    ),
    "a number with its unit": (
        bad_table(
            "a.csv",
            "text,label\n" + "a,1\nb,2\n" * 8 + "c,5 stars\n",
            "score '5 stars' is not a number",
            task="regression",
        ),
        Remedy("(without units)", {"": V}, replaced("a.csv", "5 stars", "5")),
    ),
    "a number that is missing": (
        bad_table(
            "a.csv",
            "text,label\n" + "a,1\nb,2\n" * 8 + "c,N/A\n",
            "a.csv:18: score 'N/A' is not a number",
            task="regression",
        ),
        valid("(--missing-labels drop)"),
    ),
    "decimal commas": (
        bad_table("a.csv", "text;label\n" + "a;1,250\nb;2,500\n" * 8, "score '1,250' has", task="regression"),
        valid(r"(--set regression\.decimal=),", " {0},"),
    ),
    "no pair": (
        bad_table(
            "a.csv",
            "text,other,score\n" + "a,b,1\nc,d,0\n" * 8,
            "a.csv:2: no column 'pair'",
            task="scored-pairs",
        ),
        valid(r"with (--set scored-pairs\.pair_column)=NAME", " {0}=other"),
    ),
    "a relevance that is a word": (
        bad_table(
            "a.tsv",
            "query\tpassage\tlabel\n" + "".join(f"{i}\tb\t1\n{i}\tc\t0\n" for i in range(8)) + "9\td\tyes\n",
            "a.tsv:18: ",
            task="ranking",
        ),
        Remedy("(Write finite numbers)", {"": V}, replaced("a.tsv", "yes", "1")),
    ),
    "choices that are no list": (
        bad_table(
            "a.csv",
            "prompt;choices;label\n"
            + "".join(f'{i};"[""b"", ""c""]";0\n' for i in range(9))
            + "d;e or f;0\n",
            "'choices' is \"e or f\", not a list of texts",
            task="multiple-choice",
        ),
        valid("(--skip-bad-rows)"),
    ),
    "labels without such a setting": (
        case(
            PAIRS + " --missing-labels drop",
            "--missing-labels: the task text-pairs has no such setting",
            prepare=write_text(b"text\tpair\na\tb\nc\td\n" * 1, "a.tsv"),
        ),
        Remedy("(Leave it out)", {" --missing-labels drop": "", "": V}),
    ),
    # tags
    "several columns of tags": (
        bad_tags(
            "a.csv",
            tagged_csv("sentence_id,word,tag\n")
            .replace("tag\n", "ner,label\n")
            .replace("R\n", "R,x\n")
            .replace("O\n", "O,x\n")
            .encode(),
            "a.csv:2: tags may be in 'ner' or 'label'",
        ),
        valid(r"Choose one of '(ner)', .* with (--set tagging\.tags_field)=NAME", " {1}={0}"),
    ),
    "a word that is empty": (
        bad_tags(
            "a.csv",
            tagged_csv("sentence_id,word,tag\n").encode() + b"3,,O\n",
            "a.csv:34: the word in 'word' is empty",
        ),
        Remedy("or (leave the row out)", {"": V}, replaced("a.csv", "3,,O\n", "")),
    ),
    "a row of words too short": (
        bad_tags("a.csv", tagged_csv("sentence_id,word,tag\n").encode() + b"3,Bo\n", "a.csv:34: 2 cells"),
        Remedy("is written in (quotation marks)", {"": V}, replaced("a.csv", "3,Bo\n", '3,"Bo",O\n')),
    ),
    "numbers of words without names": (
        bad_tags(
            "a.csv",
            tagged_csv("sentence_id,word,tag\n").replace("B-PER", "1").replace("O\n", "0\n").encode(),
            "a.csv:2: 'tag' holds the number 1",
        ),
        valid(r"--set '(tagging\.tag_names)=", """ --set '{0}=["O", "B-PER"]'"""),
    ),
    "no rows to leave out": (
        bad_tags("a.conll", TAGGED, "a format without rows that could be left out", flags=" --skip-bad-rows"),
        Remedy("(Leave out) --skip-bad-rows", {" --skip-bad-rows": "", "": V}),
    ),
    "a text where tags are": (
        bad_tags("a.conll", TAGGED, "a.conll: plain text has no tags", flags=" --format text"),
        Remedy("Give (words with tags)", {" --format text": "", "": V}),
    ),
    "rows of two lengths": (
        bad_tags("a.conll", TAGGED + b"Ada NNP B-PER\n", "a.conll:49: 3 columns, the first line has 2"),
        Remedy(
            "Columns are a tab apart (throughout the file), or spaces",
            {"": V},
            replaced("a.conll", "Ada NNP B-PER", "Ada B-PER"),
        ),
    ),
    "names over columns": (
        bad_tags("a.conll", b"word tag\n" + TAGGED, "a.conll:1: the first line names the columns"),
        Remedy(r"(tail -n \+2 OLD > NEW)", {"": V}, shell("a.conll")),
    ),
    "words without tags": (
        bad_tags("a.conll", b"Ada\nran\n\nBo\n", "a.conll:1: 1 column: words and tags cannot share one"),
        good("a.conll", TAGGED, "Give (a word and its tag a line)"),
    ),
    "a column that is not there": (
        bad_tags(
            "a.conll", TAGGED, "a.conll:1: 2 columns, tag_column is 5", flags=" --set tagging.tag_column=5"
        ),
        Remedy(
            "Columns are counted from 0, or from (-1) backwards", {"tag_column=5": "tag_column={0}", "": V}
        ),
    ),
    "two schemes": (
        bad_tags(
            "a.conll",
            TAGGED.replace(b"B-", b"S-") + b"Oslo S-LOC\n\nRome U-LOC\n",
            "U-LOC is a tag of BILOU, and others are of another scheme",
        ),
        Remedy("Give tags in (one scheme)", {"": V}, replaced("a.conll", "U-LOC", "S-LOC")),
    ),
    "tags in lower case": (
        bad_tags("a.conll", TAGGED.lower(), "a.conll:1: 'b-per' is not a tag"),
        valid(r"(--set tagging\.scheme=plain)"),
    ),
    "no entity at all": (
        bad_tags("a.conll", TAGGED.replace(b"B-PER", b"O"), "a.conll: no word has a tag but O"),
        good("a.conll", TAGGED, "needs (examples of entities)"),
    ),
    "documents that are not marked": (
        bad_tags(
            "a.conll",
            TAGGED,
            "a.conll:4: no line with -DOCSTART- before it",
            flags=" --set tagging.context=document",
        ),
        Remedy(r"(--set tagging\.context=sentence)", {"--set tagging.context=document": "{0}", "": V}),
    ),
    "fields of other names": (
        bad_tags("a.jsonl", TOKENS.replace("tokens", "tok").encode(), "a.jsonl:1: there is no field 'text'"),
        Remedy("Name the fields (so)", {"": V}, replaced("a.jsonl", '"tok"', '"tokens"')),
    ),
    "a tag too few": (
        bad_tags(
            "a.jsonl",
            TOKENS.encode() + b'{"tokens": ["a", "b"], "ner_tags": ["O"]}\n',
            "a.jsonl:9: 1 ner_tags for 2 tokens",
        ),
        valid("(--skip-bad-rows)"),
    ),
    "two annotations": (
        bad_tags(
            "a.json", label_studio({"result": []}, ANNOTATION), "a.json: [0]: 2 annotations of one text"
        ),
        good("a.json", label_studio(ANNOTATION), "(Leave one annotation)"),
    ),
    "spans that are shifted": (
        bad_tags(
            "a.jsonl",
            SPANS.encode()
            + b'{"text": "It was Ada ran", "label": [{"start": 8, "end": 11, "text": "Ada", "label": "X"}]}\n',
            "is not where its text is",
        ),
        Remedy(
            "Spans count characters from (0), and their end is the one after",
            {"": V},
            replaced("a.jsonl", '"start": 8, "end": 11', '"start": 7, "end": 10'),
        ),
    ),
    "a span without a label": (
        bad_tags(
            "a.jsonl",
            SPANS.encode() + b'{"text": "Ada", "label": [[0, 3]]}\n',
            "a.jsonl:9: [0, 3] is not a span",
        ),
        Remedy(r'Write (\[0, 3, "PER"\])', {"": V}, replaced("a.jsonl", "[0, 3]]", "{0}]")),
    ),
    "texts of a table without a column": (
        case(
            "embed {tmp}/a.csv -m {run} -o {out}.npy",
            "a.csv:2: no column 'text'",
            prepare=write_text(b"review;stars\nIt was;1\nHe;2\n", "a.csv"),
        ),
        more(r"(--text-column)", " {0} review"),
    ),
    "a table to learn a vocabulary from": (
        case(
            "vocab {tmp}/text.csv -o {out} --size 60 --workers 1",
            "text.csv:2: no column 'text'",
            prepare=write_text(b"review;stars\n" + b"It was a dark night;1\n" * 9, "text.csv"),
        ),
        Remedy(r"say which it is with (--text-field) NAME", {"": " {0} review", "--size 60": "--size 31"}),
    ),
    # vocabularies
    "a vocabulary in UTF-16": (
        bad_vocabulary((SPECIAL + b"a\n").decode().encode("utf-16"), "vocab.txt: text in UTF-16"),
        Remedy(ICONV.says, edit=shell("vocab/vocab.txt")),
    ),
    "no special token at all": (
        bad_vocabulary(b"a\nb\n", "vocab.txt: the vocabulary has no [PAD] and no"),
        Remedy(
            r"BERT needs (\[PAD\]), (\[UNK\]), (\[CLS\]), (\[SEP\]), (\[MASK\])",
            edit=replaced("vocab/vocab.txt", "a\n", "{0}\n{1}\n{2}\n{3}\n{4}\na\n"),
        ),
    ),
    "lines that may have no embedding": (
        case(
            "vocab inspect {tmp}/copy",
            "vocab.txt: 502 lines, 2 of them empty or repeated, and the model has 501",
            prepare=external(spoil_vocabulary),
        ),
        Remedy("(Copy) the vocab.txt that belongs", edit=copied("checkpoint")),
    ),
    "a phrase to add": (
        case(
            "vocab extend {vocab} --words {tmp}/words -o {out}",
            "'dark night' is not one word",
            prepare=write_text(b"dark night\n", "words"),
        ),
        file("Give (one word per line)", "words", "zebra\nglyptodon\n"),
    ),
    "more words than the text has": (
        case(
            "vocab extend {vocab} {tmp}/text --number 9 -o {out} --workers 1",
            "--number: the text has 2 words",
            prepare=write_text(b"zebra glyptodon the. " * 3, "text"),
        ),
        instead(r"Ask for (\d+) or fewer", "--number 9", "--number {0}"),
    ),
    "no words to add": (
        case("vocab extend {vocab} -o {out}", "one of --words and --number is needed"),
        instead("Give words, or how (many)", "{vocab}", "{vocab} {text} --workers 1 --number 2"),
    ),
    "words to add without a text": (
        case("vocab extend {vocab} --number 2 -o {out}", "--number: needs a text"),
        instead("Name (files)", "{vocab} --number", "{vocab} {text} --workers 1 --number"),
    ),
    # predictions
    "a prediction too few": (
        case(
            "score classification {tmp}/p.jsonl {tmp}/a.tsv",
            "1 predictions for 2 examples",
            prepare=two_files(("a.tsv", b"text\tlabel\na\tx\nb\ty\n"), ("p.jsonl", b'{"label": "x"}\n')),
        ),
        file("Give (a line for each example)", "p.jsonl", '{"label": "x"}\n{"label": "y"}\n'),
    ),
    "a prediction without its field": (
        case(
            "score classification {tmp}/p.jsonl {tmp}/a.tsv",
            "p.jsonl:1: no prediction: no field 'label'",
            prepare=two_files(
                ("a.tsv", b"text\tlabel\na\tx\nb\ty\n"), ("p.jsonl", b'{"wrong": "x"}\n{"label": "y"}\n')
            ),
        ),
        file("Give rows as (cloze predict) writes them", "p.jsonl", '{"label": "x"}\n{"label": "y"}\n'),
    ),
    # values, verbs and models
    "a setting": (
        case(PRETRAIN + "--data {data} --set optimizer.learningrate=1e-3", "unknown key"),
        Remedy(r"Did you mean ([\w.]+\w)", {"optimizer.learningrate": "{0}", "": " --dry-run"}),
    ),
    "a checkpoint as size": (
        case(
            INIT.replace("--init", "--data {data} -m {run}"),
            "--model: '{run}' is a checkpoint, not a size",
            "or choose a size: tiny, mini,",
        ),
        instead(r"Continue from it with (--init) ", "-m {run}", "{0} {run}"),
    ),
    "data without a flag": (
        case(PRETRAIN + "{data}", "{data}: is one word too many", "data set of `cloze corpus`"),
        instead(r"Put (--data) before it", "{data}", "{0} {data}"),
    ),
    "a table without a flag": (
        case(FINETUNE + "-m {run} {table}", "{table}: is one word too many", "training data"),
        instead(r"Put (--train) before it", "{table}", "{0} {table}"),
    ),
    "a verb of labeled data": (
        case("basline classification -d {table}", "no verb 'basline'"),
        instead(r"Did you mean (\w+)", "basline", "{0}"),
    ),
    "vectors by name": (
        case("embed {table} -m {run} -o {out}", "must end in"),
        instead(r"must end in (\.npy)", "{out}", "{out}{0}"),
    ),
}


CASES.update({name: of for name, (of, _) in NEW.items()})
REMEDIES.update(DATA_REMEDIES)
REMEDIES.update({name: remedy for name, (_, remedy) in NEW.items() if remedy is not None})
NOT_RUN.update(
    {
        "a PDF": "pdftotext is another program",
        "a pointer of git-lfs": "git-lfs is another program",
    }
)
