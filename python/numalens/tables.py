"""Where the tables of a profile are, and which columns they have when a profile lacks them."""

import json
import shutil
import tempfile
import weakref
import zipfile
from importlib import resources
from pathlib import Path

import pyarrow as pa

#: Types of columns by the words that schema.json has for them.
_TYPES = {
    "UInt16": pa.uint16(),
    "UInt32": pa.uint32(),
    "UInt64": pa.uint64(),
    "Float64": pa.float64(),
    "Boolean": pa.bool_(),
    "Utf8": pa.string(),
    "Dictionary(Int32, Utf8)": pa.dictionary(pa.int32(), pa.string()),
}


def schemas() -> dict[str, pa.Schema]:
    """Every table that a profile may have, with its columns."""
    text = resources.files("numalens").joinpath("schema.json").read_text(encoding="utf-8")
    return {
        table: pa.schema([pa.field(c["name"], _TYPES[c["type"]], c["nullable"]) for c in columns])
        for table, columns in json.loads(text).items()
    }


class Files:
    """The Parquet files of one profile: a directory as it is, a packed file unpacked beside nothing, in a temporary directory."""

    def __init__(self, path):
        self.path = Path(path)
        directory = self.path
        if not directory.exists():
            directory = Path(f"{path}.partial")
        if directory.is_file():
            if not zipfile.is_zipfile(directory):
                raise ValueError(f"{path} is no profile: neither a directory nor a packed one")
            unpacked = tempfile.mkdtemp(prefix="numalens-")
            weakref.finalize(self, shutil.rmtree, unpacked, ignore_errors=True)
            with zipfile.ZipFile(directory) as packed:
                for entry in packed.infolist():
                    # Tables stand in one directory, as `numalens pack` writes them, or in none; whatever else is in
                    # there is not a profile's. They are stored as they are, so that what is unpacked is no larger than
                    # what was received.
                    folder, _, name = entry.filename.rpartition("/")
                    plain = "/" not in folder and folder != ".." and name.endswith(".parquet") and "\\" not in name
                    if plain and entry.compress_type == zipfile.ZIP_STORED and entry.file_size == entry.compress_size:
                        with packed.open(entry) as table, (Path(unpacked) / name).open("xb") as file:
                            shutil.copyfileobj(table, file)
            directory = Path(unpacked)
        if not (directory / "meta.parquet").exists():
            raise ValueError(f"{path} is no profile: it has no meta.parquet")
        self.directory = directory

    def of(self, table: str, listed: list[str] | None) -> list[str]:
        """Paths of a table's files; `listed`: the names that `meta` has (an unfinished profile may hold others)."""
        names = [f"{table}.parquet"] if table == "meta" or listed is None else [n for n in listed if n.split(".")[0] == table]
        return [str(self.directory / name) for name in names if (self.directory / name).exists()]
