"""Open sizes that some models of this folder have to be run with, where the size that is taken by default is not one of theirs."""

SIZES = {"bert_dynamic": ["seq=32"],  # as many as it has positions
         "strings_moved": ["rows=2"],
         "open_parameters": [f"size_{name}={size}" for name, size in
                             {"z": 1, "s": 1, "zs": 1, "t": 3, "zt": 3, "ends": 1}.items()]}


def sizes_of(model):
    """The flags of the command for the file of a model."""
    return [flag for name, sizes in SIZES.items() if model.parent.name.startswith(name) for size in sizes for flag in ("--dim", size)]
