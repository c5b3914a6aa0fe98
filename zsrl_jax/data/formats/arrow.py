"""Arrow files as Minari writes them, one folder per episode: numbers, lists or structs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from zsrl_jax.data.formats import hdf5
from zsrl_jax.errors import DamageError


def read(folder: Path, wanted: tuple[str, ...]) -> dict[str, Any]:
    """Read the wanted columns of an episode: arrays, and dictionaries of them for structs."""
    pyarrow = hdf5.need("pyarrow", folder)
    table = pyarrow.concat_tables(list(_tables(folder)))
    found = {}
    for name in table.column_names:
        if name in wanted:
            chunks = table[name].combine_chunks()
            found[name] = _array(folder, name, chunks)
    return found


def count_rows(folder: Path) -> int:
    """Count the rows of an episode's files."""
    return sum(table.num_rows for table in _tables(folder))


def _tables(folder: Path) -> Iterator[Any]:
    pyarrow = hdf5.need("pyarrow", folder)
    from pyarrow import ipc

    for file in sorted(folder.glob("*.arrow")):
        try:
            with pyarrow.memory_map(str(file)) as stream:
                yield ipc.open_file(stream).read_all()
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise DamageError(file, None, "a whole Arrow file", f"damage ({error})") from error


def _array(folder: Path, key: str, node: Any) -> Any:
    pyarrow = hdf5.need("pyarrow", folder)
    node = node.combine_chunks() if isinstance(node, pyarrow.ChunkedArray) else node
    if pyarrow.types.is_struct(node.type):
        names = [node.type.field(i).name for i in range(node.type.num_fields)]
        return {name: _array(folder, f"{key}/{name}", node.field(name)) for name in names}
    if pyarrow.types.is_fixed_size_list(node.type):
        value = node.flatten().to_numpy(zero_copy_only=False)
        return hdf5.numbers(folder, key, value.reshape(-1, max(node.type.list_size, 1)))
    return hdf5.numbers(folder, key, np.asarray(node.to_numpy(zero_copy_only=False)))
