"""Patterns of schemas and rules mean what Go means by them."""

import pytest

from headgate.apiserver.patterns import InvalidPattern, compile_pattern


@pytest.mark.parametrize(
    "pattern, taken, refused",
    [
        pytest.param("^(?i)[a-z]+$", ["abc", "ABC"], ["a1", "abc\n"], id="a flag behind the start"),
        pytest.param("^a(?i)b|c$", ["ab", "aB", "xC"], ["Ab", "d"], id="a flag holds in the alternatives behind it"),
        pytest.param("^(a(?i)b)c$", ["abc", "aBc"], ["aBC", "Abc"], id="a flag ends with its group"),
        pytest.param("^(?i:a)b$", ["ab", "Ab"], ["aB"], id="a flag of its own group"),
        pytest.param("(?i)^a(?-i)b$", ["Ab"], ["AB"], id="a flag that is taken back"),
        pytest.param("^a.b$|(?s)^c.d$", ["axb", "c\nd"], ["a\nb"], id="a dot that takes line breaks, or not"),
        pytest.param("(?m)^a$", ["a", "b\na\nc"], ["ab"], id="lines"),
        pytest.param(r"^a$|^b$", ["a", "b"], ["a\n", "b\n"], id="the end is the very end, wherever it stands"),
        pytest.param(r"\Aa\z", ["a"], ["a\n", "ba"], id="start and end by name"),
        pytest.param(r"^\d+\w*$", ["1a"], ["٣", "1é"], id="digits and words are ASCII"),
        pytest.param(r"^[[:alpha:]_-]+$", ["aZ_-"], ["a1", ":"], id="a named class"),
        pytest.param(r"^[]a[]+$", ["]a["], ["b"], id="brackets in a class"),
        pytest.param(r"^[^]]$", ["a"], ["]"], id="all but a bracket"),
        pytest.param(r"^\Qa.b\E+$", ["a.b", "a.bbb"], ["axb"], id="quoted text"),
        pytest.param(r"^\x{1F600}\x41$", ["😀A"], ["A"], id="letters by number"),
        pytest.param(r"^(?<one>a)(?P<two>b)$", ["ab"], ["a"], id="named groups"),
        pytest.param(r"^a{,3}$", ["a{,3}"], ["aaa"], id="braces that repeat nothing"),
        pytest.param(r"^a{2,3}?$", ["aa", "aaa"], ["a"], id="braces that repeat"),
        pytest.param(r"^a\.b\-c\/d$", ["a.b-c/d"], ["axb-c/d"], id="escaped signs"),
        pytest.param("", ["", "a"], [], id="nothing"),
    ],
)
def test_a_pattern_takes_what_go_takes(pattern, taken, refused):
    found = compile_pattern(pattern)
    assert [text for text in taken if not found.matches(text)] == []
    assert [text for text in refused if found.matches(text)] == []


@pytest.mark.parametrize(
    "pattern, said",
    [
        pytest.param("(?=a)", "invalid or unsupported Perl syntax: `(?=`", id="looking ahead"),
        pytest.param("(?!a)", "invalid or unsupported Perl syntax: `(?!`", id="looking ahead for what is not"),
        pytest.param("(?<=a)b", "invalid named capture: `(?<=a)b`", id="looking back"),
        pytest.param("(?P<n!>a)b", "invalid named capture: `(?P<n!>`", id="a name that is none"),
        pytest.param("(?>a)", "invalid or unsupported Perl syntax: `(?>`", id="an atomic group"),
        pytest.param(r"(a)\1", r"invalid escape sequence: `\1`", id="what was found before"),
        pytest.param("a*+", "invalid nested repetition operator: `*+`", id="a possessive repetition"),
        pytest.param("a**", "invalid nested repetition operator: `**`", id="a repeated repetition"),
        pytest.param("a{1001}", "invalid repeat count: `{1001}`", id="too many"),
        pytest.param("(a", "missing closing ): `(a`", id="an open group"),
        pytest.param("a)", "unexpected ): `a)`", id="a group that nobody opened"),
        pytest.param("[a", "missing closing ]: `[a`", id="an open class"),
        pytest.param("a\\", "trailing backslash at end of expression: ``", id="half an escape"),
        pytest.param(r"\y", r"invalid escape sequence: `\y`", id="an escape that is none"),
        pytest.param("*a", "missing argument to repetition operator: `*`", id="a repetition of nothing"),
        pytest.param("[z-a]", "invalid character class range: `z-a`", id="a range from the end"),
        pytest.param("(a{500}){500}", "invalid repeat count: `{500}`", id="a repetition of a repetition"),
        pytest.param("(" * 5000, "error parsing regexp: ", id="nested very deeply"),
    ],
)
def test_what_go_cannot_read_is_refused_in_its_words(pattern, said):
    with pytest.raises(InvalidPattern, match=r"^error parsing regexp: ") as found:
        compile_pattern(pattern)
    assert said in str(found.value)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(.*a){20}$"])
def test_no_pattern_takes_longer_than_its_text_is_long(pattern):
    """Each of these would keep an engine that backtracks busy for longer than anybody lives."""
    assert not compile_pattern(pattern).matches("a" * 100_000 + "!")
