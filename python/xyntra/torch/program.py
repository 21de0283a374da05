"""A segment of a graph, compiled: a callable on tensors.

What can be found out without running is found out once: which inputs are constants, the order in which dimensions lie in memory, how
the shapes of results follow from those of inputs. A call then passes addresses, and results are written where torch allocated them.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._sympy.printers import PythonPrinter

from xyntra import _native
from xyntra.errors import Error, InternalError
from xyntra.torch.devices import Device
from xyntra.torch.frozen import Watch, can_be_watched
from xyntra.torch.options import Options
from xyntra.torch.partition import Fallback, Segment
from xyntra.torch.report import SegmentReport
from xyntra.torch.schema import GraphInput, GraphOutput, GraphWriter, size_hint, value_of

log = logging.getLogger("xyntra.torch")

# Numbers of dtypes in the C interface.
DTYPES = {torch.float32: 1, torch.uint8: 2, torch.int8: 3, torch.uint16: 4, torch.int16: 5, torch.int32: 6, torch.int64: 7, torch.bool: 9,
          torch.float16: 10, torch.float64: 11, torch.uint32: 12, torch.uint64: 13, torch.bfloat16: 16, torch.float8_e4m3fn: 17,
          torch.float8_e4m3fnuz: 18, torch.float8_e5m2: 19, torch.float8_e5m2fnuz: 20}
_MINDS_STRIDES = {torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default}
_MOST_REBINDS = 8  # of one program; more often changed parameters are inputs


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Compiling makes many objects and leaves no cycles worth looking for: a full collection of a process with torch in it takes tenths of a second."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def storage_order(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The order of dimensions in memory, from the outermost, where it is another than the tensor's own."""
    sizes, strides = [size_hint(size) for size in tensor.shape], [size_hint(stride) for stride in tensor.stride()]
    if None in sizes or None in strides or 0 in sizes or 0 in strides:
        return None
    order = sorted(range(len(sizes)), key=lambda axis: (-strides[axis], axis))  # type: ignore[operator]
    # Dimensions of size 1 may stand anywhere: it is row-major where the others are in order.
    others = [axis for axis in order if sizes[axis] != 1]
    return None if others == sorted(others) else tuple(order)


class Program:
    """Calls like the nodes of its segment: tensors and numbers in, a list of tensors out. Several threads may call it."""

    def __init__(self, graph: fx.GraphModule, segment: Segment, static: set[fx.Node], options: Options, report: SegmentReport, device: Device) -> None:
        """`static` inputs may become constants."""
        self._options, self._report, self._device = options, report, device
        self._nodes = segment.nodes
        self._inputs, self._outputs = segment.inputs, segment.outputs
        self._static = {place for place, node in enumerate(self._inputs) if node in static} if options.freeze else set()
        self._graph, self._segment = graph, segment
        self._lock = threading.Lock()
        self._bound: dict[int, Bound] = {}  # by number of threads
        self._begun: Bound | None = None  # before the first call
        self._given_up = self._noted_capture = False
        self._changes: dict[int, int] = {}  # how often a static input changed
        self._rebinds = 0

    def __call__(self, *values: object) -> Sequence[torch.Tensor]:
        if self._device.is_capturing():
            return self._captured(*values)
        threads = self._device.threads(self._options.threads)
        bound = self._bound.get(threads)
        if bound is None or bound.watch.changed(values):
            bound = None if self._given_up else self._bind(threads, values)
            if bound is None:
                return self._eager(*values)
        return bound.run(values)

    def _captured(self, *values: object) -> Sequence[torch.Tensor]:
        """For a CUDA graph of the caller's, which would run on memory of ours when that is somebody else's: torch's kernels are captured."""
        if not self._noted_capture:
            self._noted_capture = True
            self._note_fallback("the caller captures a CUDA graph")
        return self._eager(*values)

    def begin(self, given: Mapping[fx.Node, object]) -> None:
        """Compiles in the background for these parameters, while torch writes its guards: the first call, which looks at them as every call does,
        waits for it."""
        values = [given.get(node) for node in self._inputs]
        if self._device.is_capturing() or any(not isinstance(values[place], torch.Tensor) for place in self._static):
            return
        with contextlib.suppress(Exception), unset_fake_temporarily():  # what goes wrong does so again in the first call, which says it
            self._begun = self._make(self._device.threads(self._options.threads), values)
            self._begun.begin()

    def _make(self, threads: int, values: Sequence[object]) -> Bound:
        frozen = {place for place in self._static if can_be_watched(values[place])}
        begun, self._begun = self._begun, None
        if begun is not None and begun.is_for(threads, frozen) and not begun.watch.changed(values):
            return begun
        return Bound(self._graph, self._nodes, self._inputs, self._outputs, frozen, values, threads, self._options, self._device)

    @functools.cached_property
    def _eager(self) -> Callable[..., Sequence[torch.Tensor]]:
        return _submodule(self._graph, self._segment)

    def _bind(self, threads: int, values: Sequence[object]) -> Bound | None:
        with self._lock:
            bound = self._bound.get(threads)
            if bound is not None and not bound.watch.changed(values):
                return bound  # another thread was faster
            if bound is not None:
                self._note_changes(bound, values)
            try:
                with no_collections():
                    made = self._make(threads, values)
                    made.finish()
            except Error as error:
                self._refuse(error)
                return None
            self._report.compiled(made.explain, rebinds=self._rebinds, frozen=len(made.frozen))
            self._check_contract()
            self._bound[threads] = made
            return made

    def _note_changes(self, bound: Bound, values: Sequence[object]) -> None:
        """Parameters that change again and again stay inputs."""
        self._rebinds += 1
        self._bound.clear()
        for place in bound.watch.changed_places(values):
            self._changes[place] = self._changes.get(place, 0) + 1
            if self._changes[place] > 1:
                self._static.discard(place)
        if self._rebinds >= _MOST_REBINDS:
            self._static.clear()

    def _refuse(self, error: Error) -> None:
        """Nothing of the segment is compiled: torch runs it."""
        if self._options.no_fallback:
            raise error
        self._given_up = True
        self._note_fallback(str(error))

    def _note_fallback(self, reason: str) -> None:
        self._report.refused([Fallback(node.name, str(node.target), reason) for node in self._nodes])

    def _check_contract(self) -> None:
        self._report.graph.check_kernels(self._options.max_kernels)


class Bound:
    """A program for one number of threads, with its constants."""

    def __init__(self, graph: fx.GraphModule, nodes: list[fx.Node], inputs: list[fx.Node], outputs: list[fx.Node], frozen: set[int],
                 values: Sequence[object], threads: int, options: Options, device: Device) -> None:
        given = graph_inputs(inputs, frozen)
        stored = [GraphOutput(node, storage_order(value_of(node))) for node in outputs]  # type: ignore[arg-type]
        writer = GraphWriter(nodes, [one for _, one in given], stored)
        text = writer.text()
        names = writer.input_names
        constants = []
        self._keep = []  # what constants lie in
        for (place, one), name in zip(given, names):
            if one.constant:
                tensor = _dense(values[place], one.storage)  # type: ignore[arg-type]
                self._keep.append(tensor)
                constants.append((name, DTYPES[tensor.dtype], tuple(tensor.shape), tensor.data_ptr()))
        self.threads, self.frozen, self._device = threads, frozen, device
        self.watch = Watch({place: values[place] for place in frozen})
        self._taken_nodes, self._stored = [(place, one) for place, one in given if not one.constant], stored
        self._taken = [(place, one.storage, isinstance(value_of(one.node), torch.Tensor)) for place, one in self._taken_nodes]
        self._outputs = [(_tensor_of(one).dtype, _tensor_of(one).device, one.storage and [one.storage.index(axis) for axis in range(len(one.storage))]) for one in stored]
        self._reordered = any(order is not None for *_, order in self._outputs)
        self._shapes = shape_function([_stored_shape(one) for one in stored], [(place, value_of(one.node), one.storage) for place, one in self._taken_nodes])
        self._compile: Callable[[], _native.Session] | None = functools.partial(
            _native.Session, text.encode(), constants, device.backend, threads, sizes_seen([one for _, one in given]), options.max_memory,
            device.precision(options.precision))
        self._compiled: list[_native.Session | Error] = []
        self._thread: threading.Thread | None = None

    def is_for(self, threads: int, frozen: set[int]) -> bool:
        return self.threads == threads and self.frozen == frozen

    def begin(self) -> None:
        def compile_it() -> None:
            try:
                self._compiled.append(self._compile())  # type: ignore[misc]
            except Error as error:
                self._compiled.append(error)

        self._thread = threading.Thread(target=compile_it, name="xyntra compiles")
        self._thread.start()

    def finish(self) -> None:
        """What a call needs; the compiler is waited for where it was begun."""
        if self._thread is not None:
            self._thread.join()
        compiled = self._compiled.pop() if self._compiled else self._compile()  # type: ignore[misc]
        if isinstance(compiled, Error):
            raise compiled
        self._native = compiled
        self._compile = self._thread = None
        # The library may call values by other names than the graph, to keep them apart; their order is that of the graph.
        inputs, outputs = self._native.inputs(), self._native.outputs()
        there = [name for nodes, rows in ((self._taken_nodes, inputs), (enumerate(self._stored), outputs)) for (_, one), (name, _, _) in zip(nodes, rows)
                 if is_on_gpu(value_of(one.node))]
        self._run = _native.Runner(self._native, [(name, number) for name, number, _ in inputs], [(name, number) for name, number, _ in outputs], there)
        for expected, rows in (([one.node for _, one in self._taken_nodes], inputs), ([one.node for one in self._stored], outputs)):
            if [_kind(node) for node in expected] != [(number, None if sizes is None else len(sizes)) for _, number, sizes in rows]:
                raise InternalError("the library has other inputs or outputs than the graph")

    def explain(self) -> str:
        return self._native.explain_json()

    def run(self, values: Sequence[object]) -> list[torch.Tensor]:
        held, addresses, sizes = [], [], []
        for place, storage, is_tensor in self._taken:
            value = values[place]
            if not is_tensor:
                value = torch.tensor(value, dtype=torch.int64)
            elif storage is not None:
                value = value.permute(storage)  # type: ignore[attr-defined]
            if not value.is_contiguous() or value.is_neg():  # type: ignore[attr-defined]
                value = value.resolve_neg().contiguous()  # type: ignore[attr-defined]
            if value.data_ptr() % self._device.alignment:  # type: ignore[attr-defined]
                value = value.clone()  # type: ignore[attr-defined]
            held.append(value)
            addresses.append(value.data_ptr())  # type: ignore[attr-defined]
            sizes.append(value.shape)  # type: ignore[attr-defined]
        shapes = self._shapes(values)
        made = [torch.empty(shape, dtype=dtype, device=device) for shape, (dtype, device, _) in zip(shapes, self._outputs)]
        self._run(addresses, sizes, [one.data_ptr() for one in made], shapes, self._device.stream())
        if self._reordered:
            made = [one if order is None else one.permute(order) for one, (*_, order) in zip(made, self._outputs)]
        return made


def is_on_gpu(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cuda"


def graph_inputs(inputs: list[fx.Node], frozen: set[int]) -> list[tuple[int, GraphInput]]:
    """Inputs that a compiled graph has, with their places: numbers that are sizes of a tensor among them are none."""
    told = {size.node.expr for node in inputs if isinstance(value_of(node), torch.Tensor) for size in value_of(node).shape  # type: ignore[union-attr]
            if isinstance(size, torch.SymInt)}
    made = []
    for place, node in enumerate(inputs):
        value = value_of(node)
        if isinstance(value, torch.Tensor):
            made.append((place, GraphInput(node, place in frozen, storage_order(value))))
        elif not (isinstance(value, torch.SymInt) and (value.node.expr in told or value.node.expr.is_number)):
            made.append((place, GraphInput(node)))
    return made


def sizes_seen(inputs: list[GraphInput]) -> list[str]:
    """Sizes that costs are counted with: those of the call that the graph was captured with."""
    seen: dict[str, int] = {}
    for one in inputs:
        value = value_of(one.node)
        for size in value.shape if isinstance(value, torch.Tensor) else ():
            if isinstance(size, torch.SymInt) and size.node.expr.is_symbol and (hint := size_hint(size)) is not None:
                seen[str(size.node.expr)] = hint
    return [f"{symbol}={size}" for symbol, size in seen.items()]


def _kind(node: fx.Node) -> tuple[int, int]:
    """The dtype and rank that the library must have for it."""
    value = value_of(node)
    return (DTYPES[value.dtype], value.dim()) if isinstance(value, torch.Tensor) else (DTYPES[torch.int64], 0)


def _tensor_of(one: GraphInput | GraphOutput) -> torch.Tensor:
    value = value_of(one.node)
    assert isinstance(value, torch.Tensor)
    return value


def _dense(tensor: torch.Tensor, storage: tuple[int, ...] | None) -> torch.Tensor:
    """In the host's memory, from which constants are brought to a device once."""
    tensor = tensor.detach().resolve_neg()
    return (tensor if storage is None else tensor.permute(storage)).contiguous().cpu()


def _stored_shape(one: GraphOutput) -> list[object]:
    shape = _tensor_of(one).shape
    return [shape[axis] for axis in (range(len(shape)) if one.storage is None else one.storage)]


def shape_function(shapes: list[list[object]], inputs: list[tuple[int, object, object]]) -> Callable[[Sequence[object]], list[tuple[int, ...]]]:
    """Shapes of results from the inputs of a call."""
    where: dict[object, str] = {}  # symbols, as Python that gives their values
    for place, value, _ in inputs:
        if isinstance(value, torch.Tensor):
            for axis, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt) and size.node.expr.is_symbol:
                    where.setdefault(size.node.expr, f"v[{place}].size({axis})")
        elif isinstance(value, torch.SymInt) and value.node.expr.is_symbol:
            where.setdefault(value.node.expr, f"v[{place}]")
    symbols: dict[object, str] = {}

    def text(size: object) -> str:
        if not isinstance(size, torch.SymInt):
            return str(size)
        for symbol in size.node.expr.free_symbols:
            if symbol not in where:
                raise UnknownShape(f"the size {size.node.expr}, which no input's shape tells")
            symbols[symbol] = where[symbol]
        return PythonPrinter().doprint(size.node.expr)

    tuples = [f"({''.join(text(size) + ', ' for size in shape)})" for shape in shapes]
    if not symbols:
        fixed = [tuple(int(size) for size in shape) for shape in shapes]  # type: ignore[call-overload]
        return lambda values: fixed
    assigned = "".join(f"    {symbol} = {source}\n" for symbol, source in symbols.items())
    scope: dict = {"math": __import__("math")}
    exec(f"def shapes(v):\n{assigned}    return [{', '.join(tuples)}]\n", scope)  # text of ours: symbols have generated names
    return scope["shapes"]


class UnknownShape(Error):
    """A result whose size only running tells."""


def torch_node(graph: fx.Graph, node: fx.Node, names: dict[fx.Node, fx.Node]) -> fx.Node:
    """The node as torch runs it in the new graph: strides may be others than those it was captured with, which a view minds."""
    made = graph.node_copy(node, names.__getitem__)
    if made.target in _MINDS_STRIDES:
        made.target = torch.ops.aten.reshape.default
    return made


def _submodule(graph: fx.GraphModule, segment: Segment) -> Callable[..., Sequence[torch.Tensor]]:
    """The segment as torch runs it."""
    made = fx.Graph()
    names: dict[fx.Node, fx.Node] = {node: made.placeholder(node.name) for node in segment.inputs}

    def copy(node: fx.Node) -> fx.Node:
        for one in node.all_input_nodes:
            if one not in names:
                copy(one)
        names[node] = torch_node(made, node, names)
        return names[node]

    for node in segment.nodes:
        if node not in names:
            copy(node)
    made.output([names[node] for node in segment.outputs])
    return fx.GraphModule(graph, made)
