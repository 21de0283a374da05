"""One case: the graph on each backend, against the peers; what differs is confirmed, reduced and kept."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import shutil

import numpy as np
import onnx

import judge
import peers
import reducer
from draw import Draw
from graph import Graph, Refused, invalid
from runner import Answer, Runner

# Of slow backends one graph in so many is run.
SAMPLE = {"wgsl": 20, "sim": 4, "reference": 4}
# How a backend may be run, and how often each way is drawn.
THREADS = {"cpu": [1, 2, 4]}
MODES = {
    "cpu": {
        "": 12,
        "--precision bf16x3": 2,
        "--precision winograd": 2,
        "--no-assume": 1,
        "--no-fuse": 1,
        "--no-rewrite": 1,
        "--no-layout": 1,
    },
    "sim": {
        "": 2,
        "--target webgpu": 3,
        "--target webgpu_software": 2,
        "--target avx2": 1,
        "--target neon": 1,
        "--target amx --precision bf16x3": 1,
    },
    "wgsl": {"": 4, "--no-fuse": 1},
    "ptx": {"": 4, "--no-fuse": 1},
}
EXPLAINED = 8  # of so many graphs one is explained, to count forms that could not be shown to be right
OF_SIZES = ("out of range", "cannot be broadcast")  # refusals that rounding may decide about
REDUCED_EACH = 2  # cases of one message that are reduced


@dataclasses.dataclass
class Verdict:
    status: str  # passed, failed, skipped
    label: str = ""
    text: str = ""
    fallbacks: list[str] = dataclasses.field(default_factory=list)  # forms that failed where plainer ones served
    unproved: list[str] = dataclasses.field(default_factory=list)  # of a graph that was explained: forms left out for plain loops


@dataclasses.dataclass
class Seen:
    """What was seen of one way to run a graph."""

    kind: str  # passed, wrong, skipped, fallback, or the kind of an answer
    signature: str
    says: str


class Checker:
    def __init__(
        self,
        command: pathlib.Path,
        out: pathlib.Path,
        scratch: pathlib.Path,
        backends: list[str],
        reduce: bool = True,
        serves: bool = False,  # whether a right answer by plainer forms, after a failure of our own, passes
    ) -> None:
        self.out, self.backends, self.reduce, self.serves = out, backends, reduce, serves
        self.met: collections.Counter[str] = collections.Counter()
        self.runner = Runner(command, scratch)

    def ways(self, seed: int, number: int) -> list[list[str]]:
        """Flags of the runs of a case: backends take their share by its number, threads and modes are drawn."""
        found, rng = [], np.random.default_rng((seed, number, 1))
        for backend in self.backends:
            if len(self.backends) > 1 and number % SAMPLE.get(backend, 1):
                continue
            flags = ["--backend", backend]
            if backend in THREADS:
                flags += ["--threads", str(rng.choice(THREADS[backend]))]
            modes = MODES.get(backend, {"": 1})
            weights = np.array(list(modes.values()), float)
            found.append([*flags, *str(rng.choice(list(modes), p=weights / weights.sum())).split()])
        return found

    def check(self, seed: int, number: int, graph: Graph, draw: Draw) -> Verdict:
        arrays = draw.values() | {n: leaf.array for n, leaf in graph.leaves.items()}
        fallbacks: list[str] = []
        unproved: list[str] = []
        for flags in self.ways(seed, number):
            seen = self.examine(graph, arrays, draw.peers, flags)
            if seen.kind == "skipped":
                return Verdict("skipped", seen.says)
            if seen.kind == "fallback":
                fallbacks.append(seen.says)
            if seen.kind != "passed" and not (seen.kind == "fallback" and self.serves):
                return dataclasses.replace(self.failed(seed, number, graph, flags, seen), fallbacks=fallbacks)
            if number % EXPLAINED == EXPLAINED - 1 and "reference" not in flags:
                unproved += self.runner.unproved(flags)
        return Verdict("passed", fallbacks=fallbacks, unproved=unproved)

    def examine(self, graph: Graph, right: dict[str, np.ndarray], steps: dict, flags: list[str]) -> Seen:
        model = graph.model(right)
        feed = graph.feed()
        self.runner.write(model.SerializeToString(), feed)
        answer = self.runner.run(graph.outputs, flags)
        if answer.kind == "internal":
            served = self.runner.run(graph.outputs, flags, serve=True)
            if served.kind == "done":
                seen = self.compare(graph, right, steps, flags, served)
                return seen if seen.kind != "passed" else Seen("fallback", answer.signature(), answer.says)
        if answer.kind == "absent":
            return Seen("skipped", "", answer.says)
        if answer.kind != "done":
            return self.unanswered(graph, right, steps, flags, model, feed, answer)
        return self.compare(graph, right, steps, flags, answer)

    def compare(self, graph: Graph, right: dict[str, np.ndarray], steps: dict, flags, answer: Answer) -> Seen:
        if all(judge.same_bits(answer.outputs[n], right[n]) for n in graph.outputs):
            return Seen("passed", "", "")
        freedom = judge.freedom_of(flags)
        allowed = judge.tolerances(graph, right, steps, freedom)
        found = judge.differences(answer.outputs, right, allowed)
        return self.confirm(graph, right, steps, answer, freedom) if found else Seen("passed", "", "")

    def unanswered(self, graph, right, steps, flags, model, feed, answer: Answer) -> Seen:
        """Peers have run every step; a model that none of them takes as a whole may still be wrong, and one in which
        rounding decides about a size may have an index out of range."""
        of_sizes = answer.kind == "refused" and any(words in answer.says for words in OF_SIZES)
        if of_sizes and judge.sizes_move(graph, right, steps, judge.freedom_of(flags)):
            return Seen("skipped", "", "rounding decides about a size")
        others = peers.whole(model, feed)
        lacks_kernel = "NOT_IMPLEMENTED" in others["ONNX Runtime"]
        if all(isinstance(result, str) for result in others.values()) and not lacks_kernel:
            return Seen("skipped", "", f"no peer runs the whole model: {others['ONNX Runtime'][:60]}")
        return Seen(answer.kind, answer.signature(), answer.says)

    def confirm(self, graph, right, steps, answer: Answer, freedom: judge.Freedom) -> Seen:
        """A difference counts when more noise does not explain it, and the peers do not contradict each other about
        it."""
        allowed = judge.tolerances(graph, right, steps, freedom, runs=24)
        found = judge.differences(answer.outputs, right, allowed)
        if not found:
            return Seen("passed", "", "")
        own = self.runner.run(graph.outputs, ["--backend", "reference"])
        about = {difference.output: allowed[difference.output] for difference in found}
        if own.kind == "done" and judge.differences(answer.outputs, own.outputs, about):
            return Seen("wrong", "wrong", f"{found[0]} (our reference gives something else)")
        opinion, asked = peers.second_opinion(graph, steps, right)
        if not judge.differences(answer.outputs, opinion, allowed):
            return Seen("passed", "", "")
        quarrel = judge.disagreement(graph, right, steps, asked)
        if quarrel:
            return Seen("skipped", "", f"the peers disagree about {quarrel}")
        return Seen("wrong", "wrong as our reference", f"{found[0]} (our reference says the same)")

    def failed(self, seed: int, number: int, graph: Graph, flags: list[str], seen: Seen) -> Verdict:
        self.met[seen.signature] += seen.kind != "wrong"
        again = self.met[seen.signature] > REDUCED_EACH
        small, seen = self.reduced(graph, flags, seen) if self.reduce and not again else (graph, seen)
        ops = " ".join(small.operators()[:8])
        text = f"{seen.kind} [{' '.join(flags[1:])}] {ops}: {seen.says}"
        self.keep(self.out / f"{seed}_{number}", small, flags, text)
        label = (
            f"{seen.kind}: {seen.signature[:80]}"
            if seen.kind != "wrong"
            else f"wrong: {' '.join(sorted(set(small.operators())))[:60]}"
        )
        return Verdict("failed", label, text)

    def reduced(self, graph: Graph, flags: list[str], seen: Seen) -> tuple[Graph, Seen]:
        """A smaller graph with the same kind of failure, of steps that no fewer peers run."""
        steps: dict = {}
        right = peers.evaluate(graph, steps)
        run_by_both = {id(step) for step in peers.second_opinion(graph, steps, right)[1]} if right else set()
        best = seen

        def still(candidate: Graph) -> bool:
            nonlocal best
            steps: dict = {}
            try:
                right = peers.evaluate(candidate, steps)
                asked = {id(step) for step in peers.second_opinion(candidate, steps, right)[1]}
                kept = {id(step) for step in candidate.steps}
                if run_by_both & kept - asked or invalid(candidate.model(right)):
                    return False
                again = self.examine(candidate, right, steps, flags)
            except (Refused, KeyError, ValueError):
                return False
            same = again.kind == seen.kind and again.signature == seen.signature
            best = again if same else best
            return same

        return reducer.reduce(graph, still), best

    def keep(self, folder: pathlib.Path, graph: Graph, flags: list[str], text: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        right = peers.evaluate(graph)
        onnx.save(graph.model(right), folder / "model.onnx")
        np.savez(folder / "input.npz", **graph.feed())
        np.savez(folder / "right.npz", **{n: right[n] for n in graph.outputs})
        (folder / "seen.txt").write_text(f"xyntra run model.onnx --input input.npz {' '.join(flags)}\n{text}\n")
