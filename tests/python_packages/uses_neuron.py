"""NEURON: cells in a ring, each on one of the ranks, fire at the same times on any number of them."""

import json

from launched import PLACES, are_ranks, python

CELLS = 12


def rank():
    from neuron import h

    h.nrnmpi_init()
    context = h.ParallelContext()
    me, size = int(context.id()), int(context.nhost())
    kept, synapses = [], {}
    for cell in range(me, CELLS, size):
        soma = h.Section(name=f"soma{cell}")
        soma.L = soma.diam = 20
        soma.insert("hh")
        synapse = h.ExpSyn(soma(0.5))
        watch = h.NetCon(soma(0.5)._ref_v, None, sec=soma)
        watch.threshold = 0
        context.set_gid2node(cell, me)
        context.cell(cell, watch)
        synapses[cell] = synapse
        kept += [soma, watch]
    for cell, synapse in synapses.items():
        wire = context.gid_connect((cell - 1) % CELLS, synapse)
        wire.delay, wire.weight[0] = 3, 0.05
        kept.append(wire)
        if cell == 0:
            first = h.NetStim()
            first.number = first.start = 1
            start = h.NetCon(first, synapse)
            start.weight[0] = 0.05
            kept += [first, start]
    times, cells = h.Vector(), h.Vector()
    context.spike_record(-1, times, cells)
    context.set_maxstep(10)
    h.finitialize(-65)
    context.psolve(100)
    parts = context.py_allgather(list(zip(times, cells)))
    if me == 0:
        print(json.dumps([size, sorted(spike for part in parts for spike in part)]))
    context.barrier()
    h.quit()


def main():
    ran = [json.loads(python(place).splitlines()[-1]) for place in PLACES]
    assert [size for size, _ in ran] == [1, 2, 4, 4], ran
    spikes = ran[0][1]
    assert len(spikes) > CELLS and all(each == spikes for _, each in ran), ran


if __name__ == "__main__":
    rank() if are_ranks() else main()
