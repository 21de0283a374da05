Bx1J*OWc

PL3