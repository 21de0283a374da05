"""Many calls: threads, leaks, bits."""

import asyncio
import gc
import os
import resource
import threading
import time

import pytest
import torch
from test_backend import MLP, Attention, Block


def test_bits_do_not_depend_on_threads(compiled):
    before = torch.get_num_threads()
    try:
        for model, shape in ((MLP(), (33, 16)), (Block().eval(), (2, 8, 33, 33)), (Attention().eval(), (2, 65, 32))):
            run, x, seen = compiled(model), torch.randn(shape), []
            for threads in (1, 2):
                torch.set_num_threads(threads)
                with torch.no_grad():
                    seen.append(run(x))
            assert torch.equal(*seen)
    finally:
        torch.set_num_threads(before)


def test_threads_share_a_model(compiled):
    model, module = compiled(MLP()), None
    wrong = []
    with torch.no_grad():
        model.agrees(torch.randn(3, 16))

    def work():
        with torch.no_grad():
            for _ in range(100):
                x = torch.randn(3, 16)
                if not torch.allclose(model(x), model.model(x), rtol=1e-4, atol=1e-5):
                    wrong.append(x)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong and module is None


def test_two_threads_in_one_session_have_the_bits_of_one(compiled):
    for model, shape in ((MLP(), (5, 16)), (Block().eval(), (2, 8, 33, 33))):
        run, given = compiled(model), [torch.randn(shape) for _ in range(40)]
        with torch.no_grad():
            expected = [run(x) for x in given]
        found = [None, None]

        def work(place, run=run, given=given, found=found):
            with torch.no_grad():
                found[place] = [run(x) for x in given]

        threads = [threading.Thread(target=work, args=(place,)) for place in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert all(torch.equal(a, b) for side in found for a, b in zip(side, expected, strict=True))


def test_ten_thousand_calls(compiled):
    model, x = compiled(MLP()), torch.randn(3, 16)
    with torch.no_grad():
        for _ in range(500):
            model(x)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        times = []
        for _ in range(10):
            began = time.process_time()
            for _ in range(1000):
                model(x)
            times.append(time.process_time() - began)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 * 1024  # kilobytes
    assert min(times[5:]) < 1.5 * min(times[:5])
    assert len(model.reports) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_works(compiled):
    model, x = compiled(Block().eval()), torch.randn(2, 8, 33, 33)
    with torch.no_grad():
        expected = model(x)
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)  # torch's own pool does not survive a fork
            os._exit(0 if torch.equal(model(x), expected) else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_asyncio(compiled):
    model, x = compiled(MLP()), torch.randn(3, 16)
    with torch.no_grad():
        expected = model(x)

    def run():
        with torch.no_grad():
            return model(x)

    async def many():
        return await asyncio.gather(*(asyncio.to_thread(run) for _ in range(8)))

    assert all(torch.equal(one, expected) for one in asyncio.run(many()))
