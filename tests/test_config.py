"""Settings as dataclasses, TOML and overrides."""

import math
from dataclasses import dataclass, field
from typing import Literal

import pytest

from cloze import config
from cloze.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 1e-4
    kind: Literal["linear", "clock"] = "linear"

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise ValueError("rate must be positive")


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    count: int | None = None
    flag: bool = False
    inner: Inner = field(default_factory=Inner)
    inners: tuple[Inner, ...] = ()
    words: tuple[str, ...] = ()


def test_overrides_take_precedence_over_the_file_and_defaults(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('name = "a"\ncount = 1_000\n[inner]\nrate = 2e-5\n[[inners]]\nrate = 1\n')
    loaded = config.load(Outer, path, ["inner.kind=clock", "flag=true", "count=7", 'words=["x",\n"y"]\n'])
    tables = {"inner": Inner(rate=2e-5, kind="clock"), "inners": (Inner(rate=1.0),)}
    assert loaded == Outer(name="a", count=7, flag=True, words=("x", "y"), **tables)


def test_toml_round_trip(tmp_path):
    value = Outer(name='quote " and \\ ü\n\x7f', inners=(Inner(), Inner(rate=0.1)), words=("a", "b"), count=3)
    path = tmp_path / "run.toml"
    path.write_text(config.to_toml(value), encoding="utf-8")
    assert config.load(Outer, path) == value


@pytest.mark.protected
@pytest.mark.parametrize("value", [Outer(name="\ud800"), Outer(name="a", words=("b", "caf\udce9"))])
def test_lone_surrogates_are_refused(value):
    with pytest.raises(InputError, match=r"(name|words): '.*' is not Unicode"):
        config.to_toml(value)


@pytest.mark.protected
@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("inner.rat=1", r"unknown key inner.rat. Did you mean inner.rate\?"),
        ("zzz=1", r"unknown key zzz. Known keys are"),
        ("count=many", "count must be of type int, not 'many'"),
        ("count=true", "count must be of type int"),
        ("flag=1", "flag must be of type bool"),
        ("inner.kind=lineer", r"inner.kind = 'lineer' is not a choice. Did you mean linear\?"),
        ("inner.rate=-1", "inner: rate must be positive"),
        ("inner=3", "inner must be a table"),
        ("words=3", "words must be a list"),
        ("words=[3]", r"words\[0\] must be of type str"),
        ("nonsense", "cannot read 'nonsense'"),
        ("count=1\nflag=true", "more than one setting in .* Give each a --set of its own"),
        ("name=word\nflag=true", "more than one setting"),
        ("count=1\n[inner]\nrate=2", "more than one setting"),
    ],
)
def test_wrong_settings_are_errors_with_the_key(override, message):
    with pytest.raises(InputError, match=message):
        config.load(Outer, None, ['name="a"', override])


@pytest.mark.protected
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "name"),
        (None, "no such file"),
        ("a = = b", "not a TOML file"),
        (".".join(["a"] * 100_000) + " = 1", "a key has more than 32 parts"),
        ("# caf\xe9", "not UTF-8"),
    ],
    ids=["missing key", "missing file", "no TOML", "many parts", "Latin-1"],
)
def test_missing_keys_and_damaged_files_are_errors(tmp_path, content, message):
    if content is not None:
        (tmp_path / "a.toml").write_text(content, "latin-1")
    with pytest.raises(InputError, match=message):
        config.load(Outer, tmp_path / "a.toml")


@dataclass(frozen=True, kw_only=True)
class WithOtherDefaults:
    inner: Inner = field(default_factory=lambda: Inner(rate=5e-5, kind="clock"))


def test_missing_keys_of_a_table_keep_the_defaults_of_the_outer_class():
    assert config.load(WithOtherDefaults, None, ["inner.rate=2e-5"]).inner == Inner(rate=2e-5, kind="clock")
    with pytest.raises(InputError, match="rate must be positive"):
        config.load(WithOtherDefaults, None, ["inner.rate=-1"])


@pytest.mark.parametrize(
    ("interval", "inside", "outside"),
    [
        ("(0, 1)", (0.5,), (0.0, 1.0, math.nan)),
        ("[0, 1)", (0.0,), (-0.1, 1.0)),
        ("(0, 1]", (1.0,), (0.0, 1.1)),
        ("(0, inf]", (math.inf,), (0.0, math.nan)),
        ("[0, inf)", (0.0,), (-0.1, math.inf)),
        ("[1, 100]", (1, 100), (0, 101)),
    ],
)
def test_an_interval_has_its_closed_bounds_alone(interval, inside, outside):
    for number in inside:
        config.Range(interval).check("rate", number)
    for number in outside:
        with pytest.raises(ValueError, match="rate"):
            config.Range(interval).check("rate", number)
