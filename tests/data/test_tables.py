"""Tables in files: one bad line costs one line, and is named."""

import pytest

# the readers of captions and of sentences share it: its own promises are tested here
from invariance.data._tables import open_table
from invariance.errors import DataError


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_every_format_gives_the_same_rows(tmp_path):
    import pyarrow
    import pyarrow.parquet

    files = {
        "a.csv": 'id,text\n1,"one, two"\n2,three\n',
        "a.tsv": "id\ttext\n1\tone, two\n2\tthree\n",
        "a.jsonl": '{"id": "1", "text": "one, two"}\n\n{"id": "2", "text": "three"}\n',
    }
    for name, content in files.items():
        table = open_table(write(tmp_path / name, content))
        assert table.names == ("id", "text")
        assert [cells for _, cells in table] == [("1", "one, two"), ("2", "three")]
    columns = {"id": ["1", "2"], "text": ["one, two", "three"]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    table = open_table(tmp_path / "a.parquet")
    assert list(table) == [("row 1", ("1", "one, two")), ("row 2", ("2", "three"))]


def test_lines_of_text_and_their_marks(tmp_path):
    table = open_table(write(tmp_path / "a.txt", "\ufeffone\r\n\n  two \n"))
    assert list(table) == [("line 1", ("one",)), ("line 3", ("two",))]
    assert table.n_blank == 1


def test_broken_lines_are_left_out_and_named(tmp_path):
    table = open_table(write(tmp_path / "a.csv", 'a,b\n1,2\n3\n"x"y,4\n5,6\n'))
    assert [line for line, _ in table] == ["line 2", "line 5"]
    assert table.broken["line 3"] == "1 column instead of 2"
    assert "line 4" in table.broken
    table = open_table(write(tmp_path / "a.jsonl", '{"a": 1}\n[1]\n{"a"\n{"b": 2}\n'))
    assert [cells for _, cells in table] == [(1,), (None,)]
    assert table.broken["line 2"] == "no object of JSON"
    assert table.broken["line 3"].startswith("not JSON")


def test_a_quotation_mark_that_swallows_the_file_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"in line 3 of .* is never closed"):
        list(open_table(write(tmp_path / "a.csv", 'a,b\n1,2\n"3,4\n5,6\n7,8\n')))


def test_a_column_that_is_missing_is_answered_with_those_there_are(tmp_path):
    table = open_table(write(tmp_path / "a.csv", "id,body\n1,x\n"))
    assert table.require_column(("text",), "BODY", "sentences", "--text-column") == 1
    with pytest.raises(DataError, match=r"It has id, body: say so with --text-column"):
        table.require_column(("text",), None, "sentences", "--text-column")
    with pytest.raises(DataError, match=r"no column 'bodi' .* Did you mean 'body'"):
        table.require_column(("text",), "bodi", "sentences", "--text-column")


def test_files_that_are_no_tables(tmp_path):
    for name, content in (("a.parquet", "no"), ("a.docx", "x")):
        with pytest.raises(DataError):
            open_table(write(tmp_path / name, content))
    with pytest.raises(DataError, match="There is no file"):
        open_table(tmp_path / "none.csv")
    assert list(open_table(write(tmp_path / "b.csv", ""))) == []
