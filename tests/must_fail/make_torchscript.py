#!/usr/bin/env python3
"""Writes the hostile and broken archives of tests/must_fail/torchscript, and a .test beside each that has none yet.

usage: python3 tests/must_fail/make_torchscript.py     (needs nothing but Python; the result is checked in)

A case is a function that returns the bytes of a file; its docstring is the reason that heads the test. After adding one: run this, then
`scripts/golden --update tests/must_fail/torchscript/NAME.test`, then read the message.
"""
import io
import struct
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "torchscript"
CASES = {}


def case(make):
    CASES[make.__name__] = make
    return make


# ---- pieces of pickles

def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def integer(value: int) -> bytes:
    return b"J" + struct.pack("<i", value) if -2**31 <= value < 2**31 else b"\x8a\x08" + struct.pack("<q", value)


def tuple_of(*values: bytes) -> bytes:
    return b"(" + b"".join(values) + b"t"


def tensor(elements: int, sizes, strides, offset=0, key="0", storage="FloatStorage") -> bytes:
    named = tuple_of(text("storage"), b"ctorch\n" + storage.encode() + b"\n", text(key), text("cpu"), integer(elements))
    return (b"ctorch._utils\n_rebuild_tensor_v2\n" + tuple_of(named + b"Q", integer(offset), tuple_of(*map(integer, sizes)),
                                                              tuple_of(*map(integer, strides)), b"\x89", b"ccollections\nOrderedDict\n)R") + b"R")


def state(attributes: bytes) -> bytes:
    return b"\x80\x02c__torch__\nNet\n)\x81}(" + attributes + b"ub."


# ---- archives

def archive(code: str, attributes: bytes = b"", *, data=None, constants=b"\x80\x02).", version=b"3\n", more=None, deflate=()) -> bytes:
    entries = {"data.pkl": state(attributes) if data is None else data, "code/__torch__.py": code.encode(),
               "constants.pkl": constants, "version": version, "data/0": bytes(16), **(more or {})}
    return packed({f"m/{name}": content for name, content in entries.items() if content is not None}, {f"m/{name}" for name in deflate})


def packed(entries: dict, deflated=frozenset()) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in entries.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 12, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED if name in deflated else zipfile.ZIP_STORED
            file.writestr(info, content)
    return buffer.getvalue()


def net(*body: str, fields="") -> str:
    lines = "".join(f"    {line}\n" for line in body)
    return f"class Net(Module):\n{fields}  def forward(self: __torch__.Net,\n    x: Tensor) -> Tensor:\n{lines}"


USES_W = net("return torch.mul(x, self.w)", fields="  w : Tensor\n")


# ---- pickles

@case
def calls_os_system():
    """A pickle that runs a command where it is unpickled by Python."""
    return archive(USES_W, text("w") + b"cos\nsystem\n" + text("touch /tmp/owned") + b"\x85R")


@case
def calls_eval():
    """The same by builtins.eval, as a value of a dict."""
    return archive(USES_W, text("w") + b"}(" + text("a") + b"cbuiltins\neval\n" + text("1") + b"\x85Ru")


@case
def makes_popen():
    """An object of a class that is not the model's."""
    return archive(USES_W, text("w") + b"csubprocess\nPopen\n)\x81")


@case
def builds_a_list():
    """BUILD of what is no object would set attributes of anything."""
    return archive(USES_W, text("w") + b"]}b")


@case
def stack_global():
    """An opcode of protocol 4, which names what is called by strings."""
    return archive(USES_W, text("w") + text("os") + text("system") + b"\x93")


@case
def extension_code():
    """EXT1 looks a function up in Python's registry."""
    return archive(USES_W, text("w") + b"\x82\x01")


@case
def memo_far_away():
    """A place of the memo that would take gigabytes to reach."""
    return archive(USES_W, text("w") + b"Nr\xff\xff\xff\xff")


@case
def long_string():
    """A string that says it has 4 GB."""
    return archive(USES_W, text("w") + b"X\xff\xff\xff\xff")


@case
def holds_itself():
    """A list within itself: whoever walks it never ends."""
    return archive(USES_W, text("w") + b"]q\x00h\x00a")


@case
def shares_itself():
    """Forty lists of two, each of which holds the one before twice: 2^40 leaves."""
    lists = b"]q\x00" + b"".join(b"](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(40))
    return archive(net("for l in self.w:\n      return torch.mul(x, self.w)", fields="  w : List[int]\n"),
                   text("v") + tuple_of(lists) + text("w") + b"h\x28")


@case
def deep_tuple():
    """A hundred thousand tuples within one another."""
    return archive(net("return torch.mul(x, self.w)", fields="  w : int\n"), text("w") + b")" + b"\x85" * 100_000, deflate=["data.pkl"])


@case
def many_values():
    """More values than a million."""
    return archive(net("return x"), text("w") + tuple_of(b"N" * 1_100_000), deflate=["data.pkl"])


# ---- tensors

@case
def storage_too_large():
    """A storage that says it has 2^40 elements."""
    return archive(USES_W, text("w") + tensor(2**40, [2**40], [1]))


@case
def beyond_the_storage():
    """A tensor that begins beyond its storage."""
    return archive(USES_W, text("w") + tensor(4, [2], [1], offset=2**62))


@case
def strides_overflow():
    """Strides whose product with the sizes is more than 64 bits."""
    return archive(USES_W, text("w") + tensor(4, [2**40, 2], [2**40, 1]))


@case
def negative_stride():
    """A stride that leads before the storage."""
    return archive(USES_W, text("w") + tensor(4, [2], [-1]))


@case
def expanded_bomb():
    """Four elements shown 2^34 times."""
    return archive(USES_W, text("w") + tensor(4, [2**34], [0]))


@case
def quantized_storage():
    """A storage of a dtype that is not known."""
    return archive(USES_W, text("w") + tensor(4, [4], [1], storage="QInt8Storage"))


# ---- code

@case
def endless_loop():
    """A loop whose condition is known never to fail."""
    return archive(net("k = 1", "while torch.eq(k, 1):", "  k = torch.mul(k, 1)", "return x"))


@case
def endless_range():
    """A loop of 2^62 iterations."""
    return archive(net("for i in range(4611686018427387904):", "  pass", "return x"))


@case
def calls_itself():
    """A method that calls itself."""
    return archive(net("return (self).forward(x, )"))


@case
def growing_list():
    """A list that doubles forever."""
    return archive(net("l = [0]", "while True:", "  _0 = torch.extend(l, l)", "return x"))


@case
def growing_graph():
    """A graph that doubles forever."""
    return archive(net("l = [x]", "while True:", "  l = [torch.cat(l, 0), torch.relu(l[0])]", "return x"))


@case
def growing_tensor():
    """A tensor that doubles until its size has no 64 bits."""
    return archive(net("y = x", "for i in range(100):", "  y = torch.cat([y, y], 0)", "return y"))


@case
def deep_brackets():
    """A hundred thousand brackets."""
    return archive(net("return " + "(" * 100_000 + "x" + ")" * 100_000), deflate=["code/__torch__.py"])


@case
def deep_blocks():
    """A thousand blocks within one another."""
    lines = [" " * i + "if True:" for i in range(1000)]
    return archive(net(*lines, " " * 1000 + "pass", "return x"), deflate=["code/__torch__.py"])


@case
def deep_attributes():
    """A hundred thousand attributes of attributes."""
    return archive(net("return x" + ".a" * 100_000), deflate=["code/__torch__.py"])


@case
def imports():
    """Code that imports."""
    return archive("import os\n" + net("return x"))


@case
def unknown_name():
    """Code that reads a file, which Python could."""
    return archive(net("return open(\"/etc/passwd\")"))


@case
def bytes_that_are_no_text():
    """A string that is not UTF-8."""
    return archive(net("return \"\\377\""))


@case
def without_forward():
    """A module without the method that is run."""
    return archive("class Net(Module):\n  def other(self, x: Tensor) -> Tensor:\n    return x\n")


@case
def class_without_code():
    """A module whose class the archive lacks."""
    return archive("def helper(x: Tensor) -> Tensor:\n  return x\n")


@case
def cpp_class():
    """An object that only C++ can make."""
    return archive(USES_W, text("w") + b"c__torch__.torch.classes.quantized\nLinearPackedParamsBase\n)\x81")


# ---- zip

@case
def code_bomb():
    """80 KB that unpack to 80 MB."""
    return archive(net("return x") + "#" * 80_000_000, deflate=["code/__torch__.py"])


@case
def compressed_storage():
    """A storage that cannot be mapped."""
    return archive(USES_W, text("w") + tensor(4, [4], [1]), deflate=["data/0"])


@case
def wrong_checksum():
    """A byte of the code that was changed."""
    data = archive(net("return torch.relu(x)"))
    return data.replace(b"torch.relu", b"torch.selu", 1)


@case
def two_folders():
    """An entry outside of the archive's folder."""
    return packed({"m/data.pkl": state(b""), "../../etc/passwd": b"x"})


@case
def cut_short():
    """Half of an archive."""
    data = archive(net("return x"))
    return data[: len(data) // 2]


@case
def newer_format():
    """A version of the format that does not exist yet."""
    return archive(net("return x"), version=b"11\n")


@case
def big_endian():
    """Numbers of a machine with the other byte order."""
    return archive(net("return x"), more={"byteorder": b"big"})


@case
def checkpoint():
    """torch.save of a state dict: weights and no code."""
    return archive("", data=b"\x80\x02}.", constants=None, more={"code/__torch__.py": None, "byteorder": b"little"})


@case
def no_zip():
    """A pickle of an old torch.save."""
    return b"\x80\x02}q\x00."


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, make in CASES.items():
        (FOLDER / f"{name}.pt").write_bytes(make())
        test = FOLDER / f"{name}.test"
        if not test.exists():
            test.write_text(f"# {make.__doc__}\n# RUN: xyntra run %dir/{name}.pt --shape x=2x4\n# EXIT: 4\n# ERR:\n")
    print(f"{len(CASES)} files, {sum(path.stat().st_size for path in FOLDER.glob('*.pt')) / 1e3:.0f} KB")


if __name__ == "__main__":
    main()
